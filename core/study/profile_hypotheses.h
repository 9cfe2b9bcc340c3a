// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROFILE_HYPOTHESES_H_
#define MPSD_CORE_STUDY_PROFILE_HYPOTHESES_H_

#include <vector>

#include "core/runbook/finding.h"
#include "core/runbook/thresholds.h"
#include "core/study/profile_facts.h"

namespace mpsd::study {

// The runbook's fallback table, row by row: what was seen, the hypothesis that
// explains it, what to do. A finding for each row:
//
//   profile.data          the step waits for data
//   profile.blocking      the host waits for the device within a step
//   profile.fallback      operators run on the CPU
//   profile.slow_layer    a layer is slower than its like: kernel gap
//   profile.device_idle   the device waits for the host: sync points
//   profile.host_gaps     the host is busy between operators
//   profile.cliff         a fast start, then a cliff: cache pressure
//   profile.memory        memory grows from step to step
//   profile.loss_drift    not told: compare-devices compares numbers
//
// WARN where the hypothesis fits, those that cost most of the step first, then
// PASS. Before them stands profile.hypothesis: the one that fits best, or that
// none does.
std::vector<runbook::Finding> Hypotheses(const ProfileFacts& facts,
                                         const runbook::Thresholds& thresholds);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PROFILE_HYPOTHESES_H_
