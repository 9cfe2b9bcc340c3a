// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/executor.h"

#include <utility>

#include "core/base/check.h"

namespace mpsd::rpc {

Executor::Executor(int threads) {
  base::CheckLess(0, threads, "threads");
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Executor::~Executor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Post(std::function<void()> task) {
  base::Check(task != nullptr, "there is something to run");
  // absl::Mutex itself wakes a thread of Loop: on release it checks whether
  // Ready() holds.
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

bool Executor::TryPost(std::function<void()> task, size_t max_waiting) {
  base::Check(task != nullptr, "there is something to run");
  absl::MutexLock lock(&mutex_);
  if (tasks_.size() >= max_waiting) return false;
  tasks_.push_back(std::move(task));
  return true;
}

void Executor::Loop() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &Executor::Ready));
      // A thread leaves only when no task waits: a call whose task never ran
      // would never be finished.
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    // The task runs and is destroyed without the lock: a task may post the next
    // one, or hold the last pointer to a stream.
    task();
  }
}

}  // namespace mpsd::rpc
