// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_JUDGE_H_
#define MPSD_SERVER_DOCTOR_JUDGE_H_

#include <vector>

#include "core/runbook/finding.h"
#include "core/runbook/thresholds.h"
#include "server/doctor/facts.h"

namespace mpsd::doctor {

using Findings = std::vector<runbook::Finding>;

// Each group of gates adds its findings, in the order in which people read
// them. A gate that the facts tell nothing about is a finding "not told"; one
// that does not exist on this kind of machine is no finding.
void JudgeMachine(const Facts& facts, const runbook::Thresholds& thresholds,
                  Findings& findings);
void JudgeTorch(const Facts& facts, const runbook::Thresholds& thresholds,
                Findings& findings);
void JudgeDisk(const Facts& facts, const runbook::Thresholds& thresholds,
               Findings& findings);
void JudgeLoad(const Facts& facts, const runbook::Thresholds& thresholds,
               Findings& findings);
void JudgeService(const Facts& facts, const runbook::Thresholds& thresholds,
                  Findings& findings);

// All of them.
Findings Judge(const Facts& facts, const runbook::Thresholds& thresholds);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_JUDGE_H_
