// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SEND_JOB_H_
#define MPSD_CLIENT_SEND_JOB_H_

#include <functional>
#include <string>

#include "client/console.h"

namespace mpsd::client {

// Queues the job of `request`, prints what became of it and, unless `detach`,
// follows the job to its end. A request without an idempotency key gets one of
// its own. `upload` as for SubmitSurely. The job's id goes into *job_id, unless
// null, once the job is queued.
ExitCode SendJob(const Console& console, v1::SubmitRequest request,
                 const std::function<grpc::Status()>& upload, bool detach,
                 std::string* job_id = nullptr);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SEND_JOB_H_
