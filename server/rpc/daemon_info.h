// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DAEMON_INFO_H_
#define MPSD_SERVER_RPC_DAEMON_INFO_H_

#include "absl/status/status.h"
#include "mpsd/v1/daemon.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/daemon_facts.h"

namespace mpsd::rpc {

// Implements DaemonService.Info.
absl::Status DaemonInfo(jobs::JobReader& reader, const DaemonFacts& facts,
                        v1::InfoResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DAEMON_INFO_H_
