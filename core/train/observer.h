// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_OBSERVER_H_
#define MPSD_CORE_TRAIN_OBSERVER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/metrics/metrics.h"

namespace mpsd::train {

// One finished optimizer step; also a line of metrics.jsonl.
struct StepReport {
  int64_t step = 0;  // from 1
  int64_t total_steps = 0;
  double epoch = 0;           // passes over the data so far
  double loss = 0;            // mean over the step's label tokens, nats
  double learning_rate = 0;   // that the step used
  double grad_norm = 0;       // before clipping
  int64_t tokens = 0;         // non-padding
  int64_t padded_tokens = 0;  // padding included
  int64_t label_tokens = 0;
  double seconds = 0;            // wall time
  double data_wait_seconds = 0;  // of it, until the step's batches were there
  std::string device;            // "cpu", "cuda", "mps"
  device::Memory memory;
  int64_t footprint_bytes = 0;
  // Operators that MPS lacks → runs on the CPU, of the whole job.
  std::map<std::string, int64_t> cpu_fallback_ops;
};

struct EvalReport {
  int64_t step = 0;      // 0: before training
  double eval_loss = 0;  // mean over all targets
  int64_t label_tokens = 0;
  double seconds = 0;
  metrics::Values metrics;  // of the task
};

struct CheckpointReport {
  int64_t step = 0;
  std::filesystem::path path;
  int64_t bytes = 0;
  double seconds = 0;
  // Checkpoint folders that are gone since the report before: dropped for
  // save_total_limit, or set aside as damaged.
  std::vector<std::filesystem::path> removed;
};

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
  virtual void OnStep(const StepReport& report) = 0;
  virtual void OnEval(const EvalReport& report) = 0;
  virtual void OnCheckpoint(const CheckpointReport& report) = 0;
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
