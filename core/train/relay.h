// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_RELAY_H_
#define MPSD_CORE_TRAIN_RELAY_H_

#include <deque>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/train/observer.h"

namespace mpsd::train {

// An observer for work that may run beside the run's own thread. Observers
// expect calls from the run's thread alone; so stages and warnings from another
// thread are queued until the run's thread calls Tell. Calls from the run's own
// thread pass through at once.
class Relay : public Observer {
 public:
  // Takes the calling thread for the run's own. `to` must outlive it.
  explicit Relay(Observer& to)
      : to_(to), own_thread_(std::this_thread::get_id()) {}

  // Passes on everything queued, in the order of the calls; of one stage's
  // progress only the latest. Called on the run's own thread.
  void Tell();

  void OnStage(const std::string& stage, double fraction) override;
  void OnStep(const report::Progress& progress) override {
    to_.OnStep(progress);
  }
  void OnEval(const report::Evaluated& evaluated) override {
    to_.OnEval(evaluated);
  }
  void OnCheckpoint(const report::Checkpointed& checkpointed) override {
    to_.OnCheckpoint(checkpointed);
  }
  StopRequest stop_request() override { return to_.stop_request(); }

 private:
  struct Saying {
    bool is_warning;
    std::string text;
    double fraction;
  };

  void TellWarning(const std::string& text) override;
  bool on_own_thread() const {
    return std::this_thread::get_id() == own_thread_;
  }

  Observer& to_;
  const std::thread::id own_thread_;
  absl::Mutex mutex_;
  std::deque<Saying> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_RELAY_H_
