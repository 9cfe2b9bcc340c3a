// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_COLLECT_CALLS_H_
#define MPSD_SERVER_RPC_COLLECT_CALLS_H_

#include "absl/status/status.h"
#include "mpsd/v1/daemon.pb.h"
#include "server/access/rules.h"
#include "server/jobs/collector.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// The calls of DaemonService that show and remove what is not needed.
// `collector` may be null: Unimplemented.
absl::Status PlanCollection(jobs::Collector* collector,
                            const access::Rights& rights,
                            v1::PlanCollectionResponse& response);
absl::Status Collect(jobs::Collector* collector, const Call& call,
                     v1::CollectResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_COLLECT_CALLS_H_
