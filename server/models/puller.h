// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_PULLER_H_
#define MPSD_SERVER_MODELS_PULLER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/host/environment.h"
#include "core/report/report.h"
#include "server/jobs/user_limits.h"
#include "server/models/model_book.h"

namespace mpsd::hub {

class HfDownload;
class WatchedPull;

// How a pull ended, for the metrics.
enum class PullEnd { kSucceeded, kFailed, kCancelled };
inline constexpr report::EnumName<PullEnd> kPullEnds[] = {
    {PullEnd::kSucceeded, "succeeded"},
    {PullEnd::kFailed, "failed"},
    {PullEnd::kCancelled, "cancelled"}};

// Pulls models with the machine's own Hugging Face client, a child process and
// a thread for each pull, at most limits::kPulls at a time and one per model. A
// pull ends with the puller; what has arrived stays in the cache, where the
// next pull of the model resumes.
class Puller final : public models::Puller {
 public:
  struct Options {
    std::string command;            // --hf-command; empty: looked up
    host::Environment environment;  // mpsd's own
    std::filesystem::path cache;    // spec::HubCacheFolder()
    int64_t min_free_bytes = 0;     // of the cache's disk
    absl::Duration longest = absl::Hours(24);
    absl::Duration interval = absl::Seconds(5);  // between two measurements
    absl::Duration stop_grace = absl::Seconds(2);
    std::function<void(const std::string& line)> log = [](const auto&) {};
    std::function<void(PullEnd end)> count = [](PullEnd) {};
    std::function<void(int pulls)> running = [](int) {};
    std::function<void(int64_t bytes)> received = [](int64_t) {};
  };

  // The ledgers must outlive the puller. A null `users`: users have no limits.
  Puller(Options options, models::PullLedger& pulls, jobs::UserLedger* users)
      : options_(std::move(options)), pulls_(pulls), users_(users) {}
  // Ends the pulls.
  ~Puller() override;

  absl::StatusOr<std::unique_ptr<models::PullWatch>> Pull(
      const models::PullRequest& request, std::function<void()> wake) override;
  absl::Status Cancel(const models::PullRequest& request) override;
  bool IsPulling(const std::string& id) override;

 private:
  struct Active {
    std::shared_ptr<WatchedPull> watched;
    std::thread thread;
    models::PullRequest request;
    absl::Status stopped;  // why, if a caller ended it
  };

  absl::Status CheckNew(const models::PullRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What prevents a pull from continuing.
  absl::Status CheckRoom(const models::PullRequest& request) const;
  // The pull, on its thread.
  absl::Status Run(const models::PullRequest& request, HfDownload& download,
                   WatchedPull& watched);
  absl::Status StopOf(const std::string& id) const;
  void End(const std::string& id, absl::Status status);
  // The threads that have ended.
  std::vector<std::thread> Ended();

  const Options options_;
  models::PullLedger& pulls_;
  jobs::UserLedger* const users_;

  mutable absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Active> active_ ABSL_GUARDED_BY(mutex_);  // by id
  std::vector<std::thread> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_MODELS_PULLER_H_
