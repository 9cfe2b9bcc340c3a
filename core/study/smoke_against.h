// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_SMOKE_AGAINST_H_
#define MPSD_CORE_STUDY_SMOKE_AGAINST_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "core/runbook/finding.h"
#include "core/runbook/thresholds.h"

namespace mpsd::study {

// Compares a smoke run with another machine's before a handoff: a finding for
// each difference, and for each part that is equal. `here` is the message
// SmokeResult, `there` SmokeReference; whatever `there` has not is not told.
std::vector<runbook::Finding> CompareSmoke(
    const nlohmann::json& here, const nlohmann::json& there,
    const runbook::Thresholds& thresholds);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_SMOKE_AGAINST_H_
