// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/jobs/attempt_end.h"

namespace mpsd::fakes {

// Launches nothing: the test speaks for the worker through `listener`, and
// reads here what the scheduler asked of it. One thread at a time.
class FakeLauncher final : public jobs::WorkerLauncher {
 public:
  absl::Status Ready() override { return ready; }
  absl::StatusOr<std::unique_ptr<jobs::Worker>> Launch(
      const jobs::LaunchRequest& request,
      jobs::WorkerListener& listener) override {
    if (!failure.ok()) return failure;
    requests.push_back(request);
    this->listener = &listener;
    ++alive;
    if (within_launch) within_launch();
    return std::make_unique<FakeWorker>(*this);
  }

  // The worker's end.
  void Exit(jobs::ExitReason reason, const std::string& message = "") {
    jobs::WorkerListener::Result result;
    result.reason = reason;
    result.message = message;
    if (reason == jobs::ExitReason::kDone) {
      result.outcome.output_path = "/adapter";
      result.outcome.train_loss = 1.5;
      result.outcome.eval_loss_after = 0.5;
    }
    Exit(result);
  }
  void Exit(const jobs::WorkerListener::Result& result) {
    jobs::WorkerListener* last = std::exchange(listener, nullptr);
    last->OnExit(result);
  }

  absl::Status ready;
  absl::Status failure;  // of Launch
  // Called before Launch returns, as by the thread of a worker that is quick.
  std::function<void()> within_launch;
  std::vector<jobs::LaunchRequest> requests;
  jobs::WorkerListener* listener = nullptr;
  int alive = 0;
  int preempted = 0;
  absl::Duration preempt_grace;  // of the last Preempt
  int cancelled = 0;
  absl::Duration grace;  // of the last Cancel
  int paused = 0;
  int resumed = 0;

 private:
  class FakeWorker final : public jobs::Worker {
   public:
    explicit FakeWorker(FakeLauncher& owner) : owner_(owner) {}
    ~FakeWorker() override {
      --owner_.alive;
      if (owner_.listener != nullptr) {
        owner_.Exit(jobs::ExitReason::kPreempted, "killed");
      }
    }
    void Preempt(absl::Duration grace) override {
      ++owner_.preempted;
      owner_.preempt_grace = grace;
    }
    void Cancel(absl::Duration grace) override {
      ++owner_.cancelled;
      owner_.grace = grace;
    }
    void Pause() override { ++owner_.paused; }
    void Resume() override { ++owner_.resumed; }

   private:
    FakeLauncher& owner_;
  };
};

}  // namespace mpsd::fakes
