// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_SWEEP_H_
#define MPSD_SERVER_JOBS_JOB_SWEEP_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_store.h"

// Finds and removes what killed daemons left in STATE/jobs.
namespace mpsd::jobs {

struct Leftovers {
  // Paths to remove, in this order: staged folders of submissions and
  // deletions; folders of jobs without a row that a deletion marked, then their
  // marks; folders of submissions that were cut off before they had a row.
  std::vector<std::filesystem::path> garbage;
  // Names of the other folders of jobs without a row. They may hold results
  // (the database was replaced by an older one, say), so they stay.
  std::vector<std::string> unknown;
};

// Call it only while no job is submitted or deleted. Takes back the marks of
// jobs that have their row. The folder of a submission that was cut off is
// garbage once it is older than `grace`.
absl::StatusOr<Leftovers> FindLeftovers(const std::filesystem::path& jobs_dir,
                                        JobStore& store, absl::Duration grace);

// Safe on any thread, while other threads submit and delete jobs.
void RemoveLeftovers(const std::vector<std::filesystem::path>& garbage);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_SWEEP_H_
