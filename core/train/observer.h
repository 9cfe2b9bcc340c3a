// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/report/report.h"

namespace mpsd::train {

// kPreempt: save a checkpoint and end, to be resumed. kCancel: end without one.
enum class StopRequest { kNone, kPreempt, kCancel };

// Watches a run: implemented by the daemon's session and by the terminal. All
// calls come from the training thread. Reports that a watcher does not override
// are dropped.
class Observer {
 public:
  // Bounds of a run's warnings: torch's texts may contain numbers, so that no
  // two are alike.
  static constexpr size_t kMostWarnings = 50;
  static constexpr size_t kLongestWarning = 2000;  // bytes

  virtual ~Observer() = default;
  // The run has opened its device: "cpu", "cuda" or "mps".
  virtual void OnDevice(const std::string& name) { static_cast<void>(name); }
  // `stage`: one of core/report/report.h, or a human-readable text.
  virtual void OnStage(const std::string& stage, double fraction) = 0;
  virtual void OnStep(const report::Progress&) {}
  virtual void OnEval(const report::Evaluated&) {}
  virtual void OnSample(const report::Sampled&) {}
  virtual void OnCheckpoint(const report::Checkpointed&) {}
  // Reports a problem that does not end the run. The text goes to the job's
  // log, to `mpsctl watch` and `show`, and to run.json. Each text is reported
  // only once, cut to kLongestWarning; the last of kMostWarnings says that
  // further ones are omitted.
  void OnWarning(const std::string& text);
  void OnWarnings(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) OnWarning(text);
  }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Called between steps, between the micro-batches of a step and between the
  // batches of an evaluation. May block during a pause.
  virtual StopRequest stop_request() = 0;

 private:
  virtual void TellWarning(const std::string&) {}

  std::vector<std::string> warnings_;  // as reported
};

}  // namespace mpsd::train
