// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "mpsd/v1/doctor.pb.h"
#include "mpsd/v1/plan.pb.h"
#include "mpsd/v1/runbook.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/user_limits.h"
#include "server/planner/doctor.h"
#include "server/planner/plan_maker.h"
#include "server/rpc/gate.h"
#include "server/rpc/streams.h"

namespace mpsd::rpc {

// The calls of RunbookService; errors as in the proto. The gate has admitted
// the caller.
absl::Status GetStudyResult(jobs::JobReader& reader,
                            const v1::GetStudyResultRequest& request,
                            v1::StudyResult& response);

absl::Status Diagnose(doctor::Examiner& examiner, Call& call,
                      const v1::DiagnoseRequest& request,
                      v1::Diagnosis& response);

// Plan: begins the plan at the first call of Next, sends its stages and at last
// the plan. Destroying the source abandons the plan. `ledger` knows who
// sent which blob. The dependencies must outlive the planner's threads.
std::unique_ptr<Source<v1::PlanEvent>> MakePlanSource(
    planner::Planner& planner, jobs::JobReader& reader,
    jobs::UserLedger* ledger, const access::Rights& rights,
    v1::PlanRequest request, Wake wake);

}  // namespace mpsd::rpc
