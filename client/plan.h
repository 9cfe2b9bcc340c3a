// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PLAN_H_
#define MPSD_CLIENT_PLAN_H_

#include <string>

#include "client/console.h"
#include "client/study.h"
#include "mpsd/v1/plan.pb.h"

namespace mpsd::client {

// Has the daemon plan the job of `request`, whose files it has: fills *plan and
// returns kOk where the job fits, kVerdictFail where it does not. Shows the
// stages on console.err where that is a terminal.
// `probe_id`: a probe of the same job, "" for none. Otherwise prints why there
// is no plan: as Console::Fail; kBadInput for a threshold; kDetached after
// Ctrl-C, with which the daemon gives the plan up. A daemon that makes other
// plans is asked again for ten minutes.
ExitCode MakePlan(const Console& console, v1::SubmitRequest request,
                  const ThresholdArguments& thresholds, v1::Plan* plan,
                  const std::string& probe_id = "");

// Prints the plan as tables for people: data, steps, memory, time, disk, the
// queue, the verdict and, where the job does not fit, the nearest plans.
void PrintPlan(const v1::Plan& plan, const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PLAN_H_
