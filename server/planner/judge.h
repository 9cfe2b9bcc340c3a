// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_JUDGE_H_
#define MPSD_SERVER_PLANNER_JUDGE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/report/runbook.h"
#include "core/report/runbook.h"
#include "server/planner/doctor_facts.h"

namespace mpsd::doctor {

using Findings = std::vector<runbook::Finding>;

// Each group of gates adds its findings, in reading order. A gate without facts
// is a finding "unknown"; one that does not apply to this kind of machine is no
// finding.
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

// Gathers the facts. Thread-safe.
class Examiner {
 public:
  virtual ~Examiner() = default;

  // Takes seconds: starts a worker to look, unless one did a moment ago. Only
  // one caller at a time has one started; others wait and get the same result.
  // With `deep` the disk is measured, too, and the self-test of the device
  // begins, unless a job has the device or a test runs; its end is not awaited.
  // `wanted` is called from time to time; if it is not OK, its status is the
  // result.
  virtual absl::StatusOr<Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) = 0;
};

// One relevant variable, by where its value is from; absent where it is not
// set. A value that may be a secret is "set". Texts are as Foreign.
struct Variable {
  std::string name;
  // `service`: of mpsd.toml if that names the variable, too.
  std::optional<std::string> service, daemon, expected, worker;
  // What drifted, human-readable; empty: nothing did.
  std::string drift;
};

// The relevant variables of the service's file (and mpsd.toml's [environment],
// which overrides it), the daemon and the worker, by name, at most 100: those
// that drifted are never omitted for others. A variable drifted
//
//   - if mpsd is the service, and has another value than the file, or has
//     one that the file does not name (the locale's and the time zone's, which
//     the service manager itself may set, do not count);
//   - if the worker reported its own, and has another value than mpsd gives it.
std::vector<Variable> CompareEnvironments(const Facts& facts);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_PLANNER_JUDGE_H_
