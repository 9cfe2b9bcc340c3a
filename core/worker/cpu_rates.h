// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_CPU_RATES_H_
#define MPSD_CORE_WORKER_CPU_RATES_H_

#include "core/plan/facts.h"

namespace mpsd::worker {

// The rates that this machine's CPU attains now: the best of a few products in
// fp32 and bf16 and of a few passes over memory beyond the caches. Takes about
// half a second of all cores.
plan::Rates MeasureCpu();

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_CPU_RATES_H_
