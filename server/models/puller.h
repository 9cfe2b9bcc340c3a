// SPDX-License-Identifier: Apache-2.0
// Pulls of models: `hf download` as a process, and the puller that runs
// several.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/monitor.h"
#include "core/host/environment.h"
#include "core/report/report.h"
#include "server/jobs/user_limits.h"
#include "server/models/model_book.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::hub {

// Checks an id that passed models::CheckModelName for what hubs require in
// addition: no "..", and no ".git" at the end. InvalidArgument.
absl::Status CheckHubId(const std::string& id);

// This machine's Hugging Face client: `command`, a path, if not empty, else
// `hf` in PATH, in Homebrew's folders or in ~/.local/bin. FailedPrecondition
// names the command that installs it.
absl::StatusOr<std::string> FindHf(const std::string& command,
                                   const host::Environment& environment);

// The part of mpsd's environment for hf: its folders, its language, its
// proxies, the hub's address and the token or its file; and `cache`, the folder
// where jobs look for models.
host::Environment HfEnvironment(const host::Environment& environment,
                                const std::string& hf,
                                const std::string& cache);

// `hf download` as a child process, in its own group that dies with this
// process, however that ends. One thread at a time.
class HfDownload {
 public:
  // `id` passed CheckHubId, `revision` models::CheckRevision: neither can be
  // taken as an option by hf.
  static absl::StatusOr<std::unique_ptr<HfDownload>> Start(
      const std::string& hf, const host::Environment& environment,
      const std::string& id, const std::string& revision);
  // Kills the group.
  ~HfDownload();
  HfDownload(const HfDownload&) = delete;
  HfDownload& operator=(const HfDownload&) = delete;

  // Takes hf's output, for about as long as `patience`; nullopt while it runs,
  // else OK or hf's error.
  std::optional<absl::Status> Await(absl::Duration patience);
  // The last line that hf wrote, printable: a state of its progress bar.
  const std::string& progress() const { return progress_; }
  // SIGTERM; after `grace` SIGKILL.
  void Stop(absl::Duration grace) { process_->TerminateOrKill(grace); }

 private:
  HfDownload() = default;
  // False if nothing was there.
  bool Read();
  void Take(std::string_view text);
  absl::Status EndOf(int wait_status) const;

  supervisor::UniqueFd output_;
  supervisor::UniqueFd life_;  // its end ends the group
  std::unique_ptr<supervisor::SpawnedProcess> process_;
  std::string line_;  // that has not ended yet
  std::string progress_;
  std::vector<std::string> last_lines_;  // without states of progress bars
};

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
  bool CanPull() const override {
    return FindHf(options_.command, options_.environment).ok();
  }

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

  mutable base::Monitor mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Active> active_ ABSL_GUARDED_BY(mutex_);  // by id
  std::vector<std::thread> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::hub
