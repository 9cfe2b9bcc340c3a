// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PLAN_H_
#define MPSD_CLIENT_PLAN_H_

#include "client/console.h"
#include "mpsd/v1/plan.pb.h"

namespace mpsd::client {

// Prints the plan as readable tables: data, steps, memory, time, disk, the
// queue, the verdict and, if the job does not fit, the nearest plans.
void PrintPlan(const v1::Plan& plan, const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PLAN_H_
