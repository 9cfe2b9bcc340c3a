// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_JOB_LIST_H_
#define MPSD_SERVER_STORE_JOB_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/job.h"
#include "server/jobs/job_store.h"
#include "server/store/connection.h"

namespace mpsd::store {

// jobs::JobStore::List and CountListed. They read the narrow table job_list, at
// most once; List reads from the wide table jobs only the rows that it returns.
// For whole jobs an unreadable row is DataLoss; summaries show the readable
// columns. Each throws as Connection does.
absl::StatusOr<std::vector<jobs::Job>> ListJobs(Connection& connection,
                                                const jobs::ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());
int64_t CountJobs(Connection& connection, const jobs::ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());

// The LIKE pattern for an arbitrary text, with '\\' as its escape.
std::string LikePattern(const std::string& text);

// Updates the text index for rows of jobs that were inserted, changed or
// deleted since the last call. Must be part of the transaction of each such
// change, after the job's labels. Costs one look at an empty table if no text
// has changed.
void IndexChangedTexts(Connection& connection)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_JOB_LIST_H_
