// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_OBSERVER_H_
#define MPSD_CORE_TRAIN_OBSERVER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "core/report/report.h"

namespace mpsd::train {

enum class StopRequest { kNone, kPreempt, kCancel };

// Who watches a run: the daemon's session, or the terminal. Called on the
// training thread.
class Observer {
 public:
  // Bounds of what a run may warn of: torch's texts may have numbers in them.
  static constexpr size_t kMostWarnings = 50;
  static constexpr size_t kLongestWarning = 2000;  // bytes

  virtual ~Observer() = default;
  virtual void OnStage(const std::string& stage, double fraction) = 0;
  virtual void OnStep(const report::Progress& progress) = 0;
  virtual void OnEval(const report::Evaluated& evaluated) = 0;
  virtual void OnCheckpoint(const report::Checkpointed& checkpointed) = 0;
  // Something is amiss and the run goes on: for the job's log, `mpsctl watch`
  // and `show`, and run.json. Each text is told once, cut to kLongestWarning;
  // where there are more than kMostWarnings the last one told says so.
  void OnWarning(const std::string& text);
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Asked between steps, between the micro-batches of a step and between the
  // batches of an evaluation. May hold the run there as long as it likes.
  virtual StopRequest stop_request() = 0;

 private:
  virtual void TellWarning(const std::string&) {}

  std::vector<std::string> warnings_;  // as told
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_OBSERVER_H_
