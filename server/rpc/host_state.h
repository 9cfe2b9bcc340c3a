// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_HOST_STATE_H_
#define MPSD_SERVER_RPC_HOST_STATE_H_

#include "core/host/host.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_reader.h"

namespace mpsd::rpc {

// The machine that jobs share with people, and what it keeps from training, as
// the API has them.
void ToProto(const host::Reading& reading, v1::HostReading& out);
void ToProto(const jobs::Pause& pause, v1::Pause& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_HOST_STATE_H_
