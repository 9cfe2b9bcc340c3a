// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_TERMINAL_H_
#define MPSD_CORE_WORKER_TERMINAL_H_

#include <atomic>
#include <ostream>
#include <string>

#include "core/train/observer.h"

namespace mpsd::worker {

// Prints what a run does for humans, with a step every `logging_steps`.
class TerminalObserver : public train::Observer {
 public:
  // `out` and `stop` must outlive it. A signal handler may set `stop`.
  TerminalObserver(std::ostream& out, const std::atomic<bool>& stop,
                   int64_t logging_steps)
      : out_(out), stop_(stop), logging_steps_(logging_steps) {}

  void OnStage(const std::string& stage, double fraction) override;
  void OnStep(const report::Progress& r) override;
  void OnEval(const report::Evaluated& r) override;
  void OnCheckpoint(const report::Checkpointed& r) override;
  train::StopRequest stop_request() override;

 private:
  void TellWarning(const std::string& text) override;

  std::ostream& out_;
  const std::atomic<bool>& stop_;
  const int64_t logging_steps_;
  std::string stage_;
};

// Runs mpsd-worker --job JOB --out DIR: one job without a daemon. Returns the
// exit code: 0 done, or stopped by a signal with a checkpoint saved; 1 failed;
// 2 invalid input.
int RunAlone(const std::string& job, const std::string& out_dir,
             std::ostream& out, std::ostream& err);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_TERMINAL_H_
