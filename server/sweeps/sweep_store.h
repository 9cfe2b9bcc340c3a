// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_SWEEP_STORE_H_
#define MPSD_SERVER_SWEEPS_SWEEP_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/jobs/job.h"
#include "server/sweeps/sweep.h"

namespace mpsd::sweeps {

struct SweepFilter {
  std::optional<std::string> owner;  // absent: everybody's
  std::vector<std::string> ids;      // empty: all
  std::string before;                // an id: older ones alone; "": all
  int limit = 50;
};

// Keeps the sweeps, each until the last of its jobs is deleted. Thread-safe.
// Implemented by server/store.
class SweepStore {
 public:
  virtual ~SweepStore() = default;

  // Adds the sweep with its jobs and their first events, all or nothing, and
  // durable when it returns OK. AlreadyExists where the owner has used the
  // idempotency key.
  virtual absl::Status Insert(const Sweep& sweep,
                              absl::Span<const jobs::Job> jobs,
                              absl::Span<const jobs::Event> events) = 0;
  // NotFound.
  virtual absl::StatusOr<Sweep> Get(const std::string& id) = 0;
  virtual absl::StatusOr<std::optional<Sweep>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<Sweep>> List(
      const SweepFilter& filter) = 0;
  // The ids of the sweeps with rungs of which a job has not ended.
  virtual absl::StatusOr<std::vector<std::string>> Thinning() = 0;
  // Replaces `rung`, and of each child `rung`, `out`, `metric` and `drop`, by
  // those of `sweep`; durable when it returns OK. FailedPrecondition where
  // another rung than the one before is the last that was decided.
  virtual absl::Status Decide(const Sweep& sweep) = 0;
};

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_SWEEP_STORE_H_
