// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_PLAN_PROCESS_H_
#define MPSD_SERVER_PLANNER_PLAN_PROCESS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::planner {

struct PlanCommand {
  std::string program;  // mpsd-worker
  std::vector<std::string> args;
  std::map<std::string, std::string> environment;  // the process' whole one
  absl::Duration limit;                            // while the machine is awake
};

// Runs `command` to its end and returns the plan that it printed, as JSON
// (plan_maker.h). Calls `wanted` several times a second; on an error the
// process is killed and the error returned. `on_stage` is called on this
// thread. No process of the command's group is left when this returns.
//   DEADLINE_EXCEEDED  the command took longer than its limit.
//   INTERNAL           the command broke the protocol, crashed or made no plan.
//   other codes        the error that the command reported, or it cannot start.
absl::StatusOr<std::string> RunPlanProcess(
    const PlanCommand& command,
    const std::function<void(std::string)>& on_stage,
    const std::function<absl::Status()>& wanted);

}  // namespace mpsd::planner

#endif  // MPSD_SERVER_PLANNER_PLAN_PROCESS_H_
