// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_SWEEP_H_
#define MPSD_SERVER_JOBS_JOB_SWEEP_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_store.h"

// What daemons that were killed left in STATE/jobs.
namespace mpsd::jobs {

struct Leftovers {
  // To remove, in this order: staged folders of submissions and deletions; of
  // jobs without a row the folders that a deletion marked, then their marks;
  // and those of submissions that were cut off before they had a row.
  std::vector<std::filesystem::path> garbage;
  // Names of other folders of jobs without a row, which hold results, say: of
  // a database that was replaced by an older one. They stay.
  std::vector<std::string> unknown;
};

// Only while no job is submitted or deleted. Takes back the marks of jobs that
// have their row. A submission that was cut off is garbage once its folder is
// older than `grace`.
absl::StatusOr<Leftovers> FindLeftovers(const std::filesystem::path& jobs_dir,
                                        JobStore& store, absl::Duration grace);

// Any thread, whatever the others do meanwhile.
void RemoveLeftovers(const std::vector<std::filesystem::path>& garbage);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_SWEEP_H_
