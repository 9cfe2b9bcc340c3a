// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_BOARD_H_
#define MPSD_SERVER_JOBS_JOB_BOARD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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
  JobBoard(JobStore& store, const JobFiles& files)
      : store_(store), files_(files) {}

  absl::StatusOr<Job> Get(const std::string& id) override {
    return store_.Get(id);
  }
  absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) override {
    return store_.List(filter);
  }
  absl::StatusOr<std::vector<FoundJob>> FindByIdPart(const std::string& part,
                                                     int limit) override {
    return store_.FindByIdPart(part, limit);
  }
  absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& id) override;
  std::optional<int32_t> QueuePosition(const std::string& id) override {
    return view_.Position(id);
  }
  absl::StatusOr<std::vector<Event>> Events(const std::string& id,
                                            int64_t after) override;
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
  QueueView view_;
  EventHub hub_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_BOARD_H_
