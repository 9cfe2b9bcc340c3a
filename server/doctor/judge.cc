// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/judge.h"

namespace mpsd::doctor {

Findings Judge(const Facts& facts, const runbook::Thresholds& thresholds) {
  Findings findings;
  JudgeMachine(facts, thresholds, findings);
  JudgeTorch(facts, thresholds, findings);
  JudgeDisk(facts, thresholds, findings);
  JudgeLoad(facts, thresholds, findings);
  JudgeService(facts, thresholds, findings);
  return findings;
}

}  // namespace mpsd::doctor
