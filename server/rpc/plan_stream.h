// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_PLAN_STREAM_H_
#define MPSD_SERVER_RPC_PLAN_STREAM_H_

#include <memory>

#include "mpsd/v1/plan.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/user_limits.h"
#include "server/rpc/source_stream.h"

namespace mpsd::rpc {

// Implements RunbookService.Plan: begins the plan at the first call of Next,
// sends its stages and at last the plan. Destroying the source abandons the
// plan. A null `planner`: plans are off. `ledger` knows who sent which blob;
// null if that is not counted. The dependencies must outlive the planner's
// threads.
std::unique_ptr<Source<v1::PlanEvent>> MakePlanSource(
    jobs::Planner* planner, jobs::JobReader& reader, jobs::UserLedger* ledger,
    const access::Rights& rights, const v1::PlanRequest& request, Wake wake);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_PLAN_STREAM_H_
