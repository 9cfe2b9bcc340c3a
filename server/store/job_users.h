// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_JOB_USERS_H_
#define MPSD_SERVER_STORE_JOB_USERS_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "server/store/connection.h"

namespace mpsd::store {

// The id of a job that has not ended and whose spec names the result of job
// `id`, or a path in that job's folder; or "".
std::string UserOf(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_JOB_USERS_H_
