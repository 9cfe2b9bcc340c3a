// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_PRIOR_JOBS_H_
#define MPSD_SERVER_STORE_PRIOR_JOBS_H_

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "server/jobs/job.h"
#include "server/store/connection.h"

namespace mpsd::store {

// As JobStore::StatesOf.
std::map<std::string, jobs::State> StatesOf(Connection& c,
                                            absl::Span<const std::string> ids)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// Takes the id of a job that succeeded and is about to be deleted out of
// Job::after of the queued jobs, which have what they waited for.
void ForgetSuccess(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_PRIOR_JOBS_H_
