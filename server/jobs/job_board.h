// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_BOARD_H_
#define MPSD_SERVER_JOBS_JOB_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/job_store.h"
#include "server/jobs/queue_view.h"

namespace mpsd::jobs {

// What people may read of the queue. Rows and events come from the store,
// everything else from the view that the Scheduler writes. The board knows no
// Scheduler and takes none of its locks, so that a question is answered while a
// change waits for a disk. Thread-safe. The dependencies must outlive the
// board.
class JobBoard final : public JobReader {
 public:
  JobBoard(JobStore& store, const JobFiles& files,
           const base::Clock& clock = base::Clock::Real())
      : store_(store), files_(files), clock_(clock) {}

  absl::StatusOr<Job> Get(const std::string& id) override {
    return store_.Get(id);
  }
  absl::StatusOr<std::string> OwnerOf(const std::string& id) override {
    return store_.OwnerOf(id);
  }
  absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) override {
    return store_.List(filter);
  }
  absl::StatusOr<int64_t> CountListed(const ListFilter& filter) override {
    return store_.CountListed(filter);
  }
  absl::StatusOr<std::vector<FoundJob>> FindByIdPart(const std::string& part,
                                                     int limit) override {
    return store_.FindByIdPart(part, limit);
  }
  absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& id) override;
  absl::StatusOr<SubmitRequest> RequestOf(const std::string& id) override;
  std::optional<int32_t> QueuePosition(const std::string& id) override {
    return view_.Position(id);
  }
  QueueListing Queue(size_t limit) override {
    return view_.Listing(limit, clock_.Now(), clock_.Monotonic());
  }
  QueueListing QueueBefore(const std::string& owner, int32_t priority,
                           size_t limit) override {
    return view_.ListingBefore(owner, priority, limit, clock_.Now(),
                               clock_.Monotonic());
  }
  int64_t QueuedOf(const std::string& owner) override {
    return view_.CountOf(owner);
  }
  absl::StatusOr<std::vector<Event>> Events(const std::string& id,
                                            int64_t after) override;
  absl::StatusOr<int64_t> LastSequence(const std::string& id) override {
    return store_.LastSequence(id);
  }
  int64_t Subscribe(const std::string& id,
                    std::function<void()> wake) override {
    return hub_.Subscribe(id, std::move(wake));
  }
  void Unsubscribe(int64_t token) override { hub_.Unsubscribe(token); }
  Pause PauseOf(const std::string& id) override { return view_.PauseOf(id); }
  std::string HoldOf(const std::string& id) override {
    return view_.HoldOf(id);
  }
  ManagerInfo Info() override { return view_.Info(); }
  std::string LogPath(const std::string& id) const override;
  std::string JobFolder(const std::string& id) const override;
  std::string RunFolder(const std::string& id) const override;

  // The view that the Scheduler writes.
  QueueView& view() { return view_; }
  EventHub& hub() { return hub_; }

 private:
  JobStore& store_;
  const JobFiles& files_;
  const base::Clock& clock_;
  QueueView view_;
  EventHub hub_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_BOARD_H_
