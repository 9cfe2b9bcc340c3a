// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_COLLECTOR_H_
#define MPSD_SERVER_JOBS_COLLECTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/report/report.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// What goes by rules, by the budget of the state folder, or because nobody
// needs it. The numbers are those of CollectionItem.Kind in
// proto/mpsd/v1/daemon.proto, and the names are values of a metric's label.
enum class Collected {
  kJob = 1,
  kCheckpoints = 2,
  kBlob = 3,
  kPartialUpload = 4,
  kLeftover = 5,
};
inline constexpr report::EnumName<Collected> kCollected[] = {
    {Collected::kJob, "job"},
    {Collected::kCheckpoints, "checkpoints"},
    {Collected::kBlob, "blob"},
    {Collected::kPartialUpload, "partial_upload"},
    {Collected::kLeftover, "leftover"}};

struct CollectionItem {
  Collected kind = Collected::kJob;
  std::string id;           // a job's id, a blob's SHA-256
  std::string owner, name;  // of a job
  int64_t size_bytes = 0;
  std::string why;  // for people
};

struct CollectionPlan {
  std::vector<CollectionItem> items;  // in the order they go
  int64_t more = 0;                   // items beyond these
  int64_t freed_bytes = 0;            // by all of them
  int64_t used_bytes = 0;    // by the state folder; 0 where not measured yet
  int64_t budget_bytes = 0;  // 0: none
  std::string short_of;      // why the budget cannot be kept, for people
};

struct CollectionResult {
  int64_t removed = 0;
  int64_t freed_bytes = 0;
  std::vector<std::string> failed;  // what could not be removed, and why
};

// A measured state folder and its budget; 0 where there is none.
struct StateBytes {
  int64_t used = 0, budget = 0;
};

// Tells and removes what the rules of retention name. Thread-safe. Implemented
// by retention::Collector.
class Collector {
 public:
  virtual ~Collector() = default;
  // Removes nothing.
  virtual absl::StatusOr<CollectionPlan> Plan() = 0;
  // Removes what a plan of now names. Stops early, and returns what was removed
  // until then, when `wanted` says that nobody waits any more.
  virtual absl::StatusOr<CollectionResult> Collect(const Wanted& wanted) = 0;
  virtual StateBytes Bytes() const = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_COLLECTOR_H_
