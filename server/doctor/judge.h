// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_JUDGE_H_
#define MPSD_SERVER_DOCTOR_JUDGE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Gathers the facts. Thread-safe.
class Examiner {
 public:
  virtual ~Examiner() = default;

  // Takes seconds: a worker is started to look, unless one looked a moment ago.
  // Only one caller at a time has one started; others wait and get the same
  // answer. With `deep` the disk is measured, too, and the self-test of the
  // device begins, unless a job has the device or a test runs; nobody waits for
  // its end. `wanted` is asked from time to time; where it is not OK, so is the
  // result.
  virtual absl::StatusOr<Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) = 0;
};

// One variable that matters, where it was looked for; absent where that place
// has none. A value that may be a secret is "set". Texts are as Foreign.
struct Variable {
  std::string name;
  // `service`: of mpsd.toml where that names the variable, too.
  std::optional<std::string> service, daemon, expected, worker;
  // What drifted, for people; empty: nothing did.
  std::string drift;
};

// The variables that matter of the service's file (and mpsd.toml's
// [environment], which goes before it), the daemon and the worker,
// by name, at most 100: those that drifted are never left out for others. A
// variable drifted
//
//   - where mpsd is the service, and has another value than the file, or has
//     one that the file does not name (the locale's and the time zone's, which
//     the service manager itself may set, are no drift);
//   - where the worker told its own, and has another value than mpsd gives it.
std::vector<Variable> CompareEnvironments(const Facts& facts);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_JUDGE_H_
