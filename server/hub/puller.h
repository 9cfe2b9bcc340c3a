// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_PULLER_H_
#define MPSD_SERVER_HUB_PULLER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/fetch/client.h"
#include "server/hub/pull.h"
#include "server/hub/settings.h"
#include "server/models/pull_store.h"
#include "server/models/puller.h"

namespace mpsd::hub {

class WatchedPull;

// How a pull ended, for the metrics.
enum class PullEnd { kSucceeded, kFailed, kCancelled };

// Pulls models on threads of its own, at most limits::kPulls at a time. A pull
// is stored before it begins and forgotten when it has ended, so that a restart
// goes on with it.
class Puller final : public models::Puller {
 public:
  struct Options {
    Settings settings;
    std::filesystem::path cache;  // spec::HubCacheFolder()
    int64_t min_free_bytes = 0;   // of the cache's disk
    fetch::Client::Options client = DefaultClient();
    absl::Duration first_pause = absl::Seconds(1);  // Pull::Options
    std::function<void(const std::string& line)> log = [](const auto&) {};
    std::function<void(PullEnd end)> count = [](PullEnd) {};
    std::function<void(int pulls)> running = [](int) {};
    std::function<void(int64_t bytes)> received = [](int64_t) {};

    static fetch::Client::Options DefaultClient();
  };

  // `store` must outlive the puller.
  Puller(Options options, models::PullStore& store, const base::Clock& clock);
  // Ends the pulls; the next puller over the same store goes on with them.
  ~Puller() override;

  // Goes on with the pulls of the store. Once, before any other call.
  absl::Status Recover();

  absl::StatusOr<std::unique_ptr<models::PullWatch>> Pull(
      const models::PullRequest& request, std::function<void()> wake) override;
  absl::Status Cancel(const models::PullRequest& request) override;
  bool IsPulling(const std::string& id) override;

  int running() const;

 private:
  using Key = std::pair<std::string, std::string>;  // id, revision
  struct Active {
    std::shared_ptr<WatchedPull> watched;
    std::unique_ptr<hub::Pull> pull;
    std::thread thread;
    std::string user;
    absl::Status stopped;  // why, where somebody ended it
  };

  absl::Status CheckNew(const models::PullRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A pull whose row is stored.
  void Start(const models::KeptPull& kept, std::string token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  hub::Pull::Options OptionsOf(const models::KeptPull& kept,
                               std::shared_ptr<WatchedPull> watched);
  absl::Status CheckRoom(const Key& key, int64_t bytes) const;
  // On the pull's thread, at its end.
  void End(const Key& key, absl::Status status);
  // The threads that have ended.
  std::vector<std::thread> Ended();

  const Options options_;
  models::PullStore& store_;
  const base::Clock& clock_;

  mutable absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Key, Active> active_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_PULLER_H_
