// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SWEEP_CONVERT_H_
#define MPSD_SERVER_RPC_SWEEP_CONVERT_H_

#include "absl/status/statusor.h"
#include "mpsd/v1/sweep.pb.h"
#include "server/sweeps/ranking.h"
#include "server/sweeps/sweep.h"

namespace mpsd::rpc {

// The plan that the request asks for. InvalidArgument for what no plan can
// hold: an unknown strategy, values of no kind, too long a text.
absl::StatusOr<sweeps::Plan> PlanFrom(const v1::CreateSweepRequest& request);

// Fills an empty message. Without `with_children` the ranking is left out.
void ToProto(const sweeps::Sweep& sweep, const sweeps::JobsById& jobs,
             bool with_children, v1::Sweep& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SWEEP_CONVERT_H_
