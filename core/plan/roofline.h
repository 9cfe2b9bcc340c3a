// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_ROOFLINE_H_
#define MPSD_CORE_PLAN_ROOFLINE_H_

#include "core/host/traits.h"
#include "core/plan/facts.h"
#include "core/plan/step_cost.h"

namespace mpsd::plan {

// Seconds that `cost` takes at `rates`, which are positive. Products take the
// longer of their operations and their bytes; everything else its bytes, one
// after the other. If the host's calls take longer than all of it, the host
// decides. Fused attention attains 0.4 of the products' rate (28 ms of a 7B's
// step on an H200, tests/bench/README.md); blocked attention consists of
// products.
double RooflineSeconds(const StepCost& cost, const Rates& rates, bool half,
                       const backend::Traits& traits);

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_ROOFLINE_H_
