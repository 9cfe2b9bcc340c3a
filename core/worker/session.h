// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <ostream>
#include <string>

#include "core/train/observer.h"

namespace mpsd::worker {

// The worker's side of core/wire over the stream socket `fd`, which it owns:
// Hello, Start, the run, and the run's result. End of stream or Stop{kPreempt}
// makes the run save a checkpoint and end; Stop{kCancel} ends it without one;
// Pause holds it. The run reacts to each between two micro-batches. While work
// is done, a thread sends Heartbeat at intervals. Lines for the job's log go to
// `log`. Returns the exit code: 0 after Done or Stopped, 1 after Failed, 2 if
// the daemon violated the protocol.
int RunSession(int fd, std::ostream& log);

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
  void OnSample(const report::Sampled& r) override;
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
