// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_KEPT_JOBS_H_
#define MPSD_SERVER_JOBS_KEPT_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/jobs/measured_folders.h"

namespace mpsd::jobs {

// A job that has ended, as the rules of retention see it.
struct KeptJob {
  int64_t number = 0;  // of its row, never of two jobs
  absl::Time ended;
  int64_t bytes = 0;             // of its folder, as measured last
  int64_t checkpoint_bytes = 0;  // among them
  bool succeeded = false;
  // Pinned, or needed by a job that has not ended.
  bool bound = false;
};
struct KeptOwner {
  std::string name;
  std::vector<KeptJob> jobs;  // the one that ended first comes first
};

struct NamedJob {
  int64_t number = 0;
  std::string id, name;
};

// What retention knows of rows of jobs, and changes in them. Thread-safe.
// Implemented by server/store.
class KeptJobs {
 public:
  virtual ~KeptJobs() = default;

  // Every job that has ended. A row without the time of its end stays away.
  virtual absl::StatusOr<std::vector<KeptOwner>> Ended() = 0;
  // In the order of `numbers`; jobs that are gone are left out.
  virtual absl::StatusOr<std::vector<NamedJob>> Names(
      absl::Span<const int64_t> numbers) = 0;
  // Why a rule may not remove the job or its checkpoints: it is not there, has
  // not ended, ended at another time than `ended`, is pinned, or a job that has
  // not ended names its files or waits for it.
  virtual absl::Status MayRemove(const std::string& id, absl::Time ended) = 0;

  // Why a person may not delete the job: as above, but that other jobs wait for
  // its end alone keeps nobody from that.
  virtual absl::Status MayDelete(const std::string& id) = 0;

  // NotFound when there is no such job.
  virtual absl::Status SetPinned(const std::string& id, bool pinned) = 0;
  // Jobs that are gone are left out.
  virtual absl::Status SetBytes(absl::Span<const FolderBytes> folders) = 0;
  // Asks MayRemove, and in the same transaction removes the rows of the job's
  // checkpoints.
  virtual absl::Status ForgetCheckpoints(const std::string& id,
                                         absl::Time ended) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_KEPT_JOBS_H_
