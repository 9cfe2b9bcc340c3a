// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_JOB_LIST_H_
#define MPSD_SERVER_STORE_JOB_LIST_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/job.h"
#include "server/jobs/job_store.h"
#include "server/store/connection.h"

namespace mpsd::store {

// jobs::JobStore::List. The order is that of ids, newest first; with labels in
// the filter, the order in which the jobs came. Either order follows an index.
// For whole jobs an unreadable row is DataLoss; summaries show the readable
// columns. Throws as Connection does.
absl::StatusOr<std::vector<jobs::Job>> ListJobs(Connection& connection,
                                                const jobs::ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_JOB_LIST_H_
