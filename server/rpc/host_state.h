// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_HOST_STATE_H_
#define MPSD_SERVER_RPC_HOST_STATE_H_

#include "core/host/host.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// Converts the machine's readings, and the pause that follows from them, to the
// API's messages.
void ToProto(const host::Reading& reading, v1::HostReading& out);
void ToProto(const jobs::Pause& pause, v1::Pause& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_HOST_STATE_H_
