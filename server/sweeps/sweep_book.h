// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_SWEEP_BOOK_H_
#define MPSD_SERVER_SWEEPS_SWEEP_BOOK_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "server/jobs/job_id.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_store.h"
#include "server/jobs/sweep_children.h"
#include "server/sweeps/ranking.h"
#include "server/sweeps/sweep_store.h"

namespace mpsd::sweeps {

// What the API asks of sweeps. Thread-safe. Errors as in
// proto/mpsd/v1/sweep.proto.
class SweepBook {
 public:
  // The dependencies must outlive the book.
  struct Dependencies {
    SweepStore& store;
    jobs::JobStore& jobs;
    jobs::JobManager& manager;
    jobs::SweepChildren& children;
    const base::Clock& clock;
  };
  struct Request {
    jobs::SubmitRequest submission;
    Plan plan;  // as MakeChildren takes it
    std::optional<bool> greater_is_better;
  };
  struct Made {
    Sweep sweep;
    bool existed = false;
  };

  // `on_change`: called when the controller has something to do.
  SweepBook(Dependencies dependencies, std::function<void()> on_change,
            jobs::JobIdGenerator::Random random =
                jobs::JobIdGenerator::SystemRandom())
      : dependencies_(dependencies),
        on_change_(std::move(on_change)),
        ids_(dependencies.clock, std::move(random)) {}

  absl::StatusOr<Made> Create(const Request& request);
  absl::StatusOr<Sweep> Get(const std::string& id) {
    return dependencies_.store.Get(id);
  }
  absl::StatusOr<std::vector<Sweep>> List(const SweepFilter& filter) {
    return dependencies_.store.List(filter);
  }
  // Those of its jobs that exist, as summaries.
  absl::StatusOr<JobsById> JobsOf(const std::string& id);
  // Cancels each job that has not ended, though one of them fails; the first
  // error.
  absl::Status Cancel(const std::string& id);

 private:
  // The sweep that an earlier request with the same key made, if any.
  absl::StatusOr<std::optional<Made>> FindEarlier(const Request& request,
                                                  const std::string& hash);

  const Dependencies dependencies_;
  const std::function<void()> on_change_;
  jobs::JobIdGenerator ids_;
};

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_SWEEP_BOOK_H_
