// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"

namespace mpsd::data {

// The best number of threads on this machine: its cores, on a Mac its
// performance cores; or, once this process has set it, that of SetWorkThreads.
int WorkThreads();
void SetWorkThreads(int threads);

// How many times the progress of tokenizing a data set is reported.
inline constexpr int64_t kProgressSteps = 200;

// Computes outputs from inputs on several threads and returns them in the order
// of the inputs, so that results do not depend on the number of threads. One
// thread, the owner, constructs, pushes, takes and destroys. A worker thread is
// started only if an input finds no idle one.
template <typename Input, typename Output>
class InOrder {
 public:
  // With one thread, Push calls `work`; otherwise several threads call it
  // concurrently. Take rethrows an exception of `work`.
  InOrder(int threads, std::function<Output(Input)> work)
      : threads_(static_cast<size_t>(threads)), work_(std::move(work)) {
    base::CheckLess(0, threads, "threads");
  }
  // Waits for inputs in progress; inputs not started are dropped.
  ~InOrder() {
    {
      absl::MutexLock lock(&mutex_);
      stop_ = true;
    }
    for (std::thread& thread : pool_) thread.join();
  }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

  // Whether enough was pushed to keep every thread busy: call Take first.
  bool full() const { return pending_ >= kAhead * threads_; }
  // Whether everything pushed has been taken.
  bool empty() const { return pending_ == 0; }

  void Push(Input input) {
    ++pending_;
    Slot* slot = nullptr;
    bool start = false;
    {
      absl::MutexLock lock(&mutex_);
      slot = &slots_.emplace_back(std::move(input));
      if (threads_ > 1) ++waiting_;
      start = waiting_ > idle_ && pool_.size() < threads_;
    }
    if (threads_ <= 1) Work(*slot);
    if (start) pool_.emplace_back([this] { Run(); });
  }

  // Waits for the output of the oldest input. Some pushed input must not have
  // been taken yet.
  Output Take() {
    base::Check(pending_ > 0, "an input was pushed that was not taken");
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return slots_.front().done;
    };
    mutex_.Await(absl::Condition(&ready));
    Slot slot = std::move(slots_.front());
    slots_.pop_front();
    --pending_;
    if (slot.error) std::rethrow_exception(slot.error);
    return *std::move(slot.output);
  }

 private:
  static constexpr size_t kAhead = 4;  // inputs per thread

  struct Slot {
    explicit Slot(Input i) : input(std::move(i)) {}
    Input input;
    std::optional<Output> output;
    std::exception_ptr error;
    bool done = false;
  };

  void Work(Slot& slot) {
    try {
      slot.output = work_(std::move(slot.input));
    } catch (...) {
      slot.error = std::current_exception();
    }
    absl::MutexLock lock(&mutex_);
    slot.done = true;
  }

  void Run() {
    while (true) {
      Slot* slot = nullptr;
      {
        absl::MutexLock lock(&mutex_);
        ++idle_;
        const auto wake = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
          return stop_ || waiting_ > 0;
        };
        mutex_.Await(absl::Condition(&wake));
        --idle_;
        if (stop_) return;
        base::CheckAtMost(waiting_, slots_.size(), "inputs that wait, and all");
        // A deque's slots do not move while others are added or removed at its
        // ends, so that Work may use `*slot` without the mutex.
        slot = &slots_[slots_.size() - waiting_];
        --waiting_;
      }
      Work(*slot);
    }
  }

  const size_t threads_;
  const std::function<Output(Input)> work_;
  size_t pending_ = 0;             // used by the owner only
  std::vector<std::thread> pool_;  // used by the owner only
  absl::Mutex mutex_;
  std::deque<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // at slots_' end, not started
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;     // threads
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace mpsd::data
