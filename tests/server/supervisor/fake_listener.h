// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/attempt_end.h"

namespace mpsd::supervisor {

// Keeps what is reported to it. Thread-safe.
class FakeListener final : public jobs::WorkerListener {
 public:
  void OnHello(const Identity& identity) override {
    absl::MutexLock lock(&mutex_);
    identity_ = identity;
  }
  void OnDevice(const std::string& device) override {
    absl::MutexLock lock(&mutex_);
    devices_.push_back(device);
  }
  void OnProgress(const jobs::Progress& progress) override {
    absl::MutexLock lock(&mutex_);
    progress_.push_back(progress);
  }
  void OnEvaluated(const jobs::Evaluated& evaluated) override {
    absl::MutexLock lock(&mutex_);
    evaluated_.push_back(evaluated);
  }
  void OnSampled(const report::Sampled&) override {}
  void OnCheckpoint(const report::Checkpointed& checkpoint) override {
    absl::MutexLock lock(&mutex_);
    checkpoints_.push_back(checkpoint);
  }
  void OnHeartbeat(const std::string& stage, double) override {
    absl::MutexLock lock(&mutex_);
    stages_.push_back(stage);
  }
  void OnWarning(const std::string& text) override {
    absl::MutexLock lock(&mutex_);
    warnings_.push_back(text);
  }
  void OnHeld() override {
    absl::MutexLock lock(&mutex_);
    holds_.push_back(true);
  }
  void OnResumed() override {
    absl::MutexLock lock(&mutex_);
    holds_.push_back(false);
  }
  void OnExit(const Result& result) override {
    absl::MutexLock lock(&mutex_);
    exits_.push_back(result);
  }

  // The only Result, once there is one.
  Result WaitForExit() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](std::vector<Result>* exits) { return !exits->empty(); },
            &exits_),
        absl::Minutes(1));
    return exits_.empty() ? Result{} : exits_.front();
  }
  // True once so many steps were reported.
  bool WaitForProgress(size_t steps = 1) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&] { return progress_.size() >= steps; };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), absl::Minutes(1));
  }
  bool WaitForStage() { return Wait(&stages_); }
  bool WaitForHold() { return Wait(&holds_); }
  // True: held, false: resumed.
  std::vector<bool> holds() const { return Copy(holds_); }

  std::vector<jobs::Progress> progress() const { return Copy(progress_); }
  std::vector<jobs::Evaluated> evaluated() const { return Copy(evaluated_); }
  std::vector<report::Checkpointed> checkpoints() const {
    return Copy(checkpoints_);
  }
  std::vector<std::string> warnings() const { return Copy(warnings_); }
  std::vector<std::string> devices() const { return Copy(devices_); }
  std::vector<Result> exits() const { return Copy(exits_); }
  Identity identity() const {
    absl::MutexLock lock(&mutex_);
    return identity_;
  }

 private:
  template <typename T>
  std::vector<T> Copy(const std::vector<T>& list) const {
    absl::MutexLock lock(&mutex_);
    return list;
  }
  template <typename T>
  bool Wait(std::vector<T>* list) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](std::vector<T>* items) { return !items->empty(); }, list),
        absl::Minutes(1));
  }

  mutable absl::Mutex mutex_;
  Identity identity_;
  std::vector<jobs::Progress> progress_;
  std::vector<jobs::Evaluated> evaluated_;
  std::vector<report::Checkpointed> checkpoints_;
  std::vector<std::string> stages_;
  std::vector<std::string> warnings_, devices_;
  std::vector<bool> holds_;
  std::vector<Result> exits_;
};

}  // namespace mpsd::supervisor
