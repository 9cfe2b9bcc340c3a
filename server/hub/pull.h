// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_PULL_H_
#define MPSD_SERVER_HUB_PULL_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/fetch/client.h"
#include "server/hub/cache_folder.h"
#include "server/hub/hub_client.h"
#include "server/hub/listing.h"
#include "server/hub/settings.h"
#include "server/models/puller.h"

namespace mpsd::hub {

// One pull, from the list of files to the snapshot that Transformers finds:
//
//   list -> config.json -> index of shards -> room on the disk -> each file
//        -> snapshot, ref
//
// What broke off is tried again with growing pauses, and goes on at the byte
// where it ended.
class Pull {
 public:
  struct Options {
    Settings settings;  // names a hub
    std::filesystem::path cache;
    fetch::Client::Options client;
    // The pause before the second try; doubles with each.
    absl::Duration first_pause = absl::Seconds(1);
    // ResourceExhausted where the disk has no room for so many bytes more.
    std::function<absl::Status(int64_t bytes)> check_room;
    // The revision's commit is known.
    std::function<void(const std::string& commit)> on_commit;
    // How far the pull has come; `note` may be empty. Called often.
    std::function<void(const models::PullNews& news)> on_news;
  };

  // `commit`: that the revision named at an earlier beginning; "" for none.
  Pull(Options options, std::string id, std::string revision,
       std::string commit, std::string token);

  // Blocks until the model is in the cache, or until the pull has failed with
  // an error of ModelService.Pull; Cancelled after Stop. Once, on any thread.
  absl::Status Run();

  // Makes Run return soon. Any thread.
  void Stop();

 private:
  class PartReceiver;

  absl::Status DescribeFiles();
  absl::Status FetchConfig();
  absl::Status FetchIndex();
  absl::Status Fetch(const HubFile& file);
  absl::StatusOr<std::unique_ptr<CachePart>> WaitForPart(const HubFile& file);
  absl::Status FetchPart(const HubFile& file, CachePart& part);
  absl::StatusOr<std::string> Read(const HubFile& file) const;
  // Calls `attempt` until it returns another error than Unavailable, or too
  // often without bytes that came.
  absl::Status Again(const std::function<absl::Status()>& attempt);
  // False once Stop was called.
  bool Sleep(absl::Duration duration);
  bool stopped() const;
  void CountReceived();
  void Tell(const std::string& note);

  const Options options_;
  const std::string id_, revision_, pinned_;
  HubClient client_;
  Listing listing_;
  std::optional<CacheFolder> cache_;  // from DescribeFiles on
  models::PullNews news_;

  mutable absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_PULL_H_
