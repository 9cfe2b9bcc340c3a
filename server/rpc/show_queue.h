// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SHOW_QUEUE_H_
#define MPSD_SERVER_RPC_SHOW_QUEUE_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// Implements JobService.Queue. Of jobs that the caller may not read it only
// shows the public part (access::Rights): neither their names nor what they
// wait for.
absl::Status ShowQueue(jobs::JobReader& reader, const access::Rights& rights,
                       const v1::QueueRequest& request,
                       v1::QueueResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SHOW_QUEUE_H_
