// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_EXECUTOR_H_
#define MPSD_SERVER_RPC_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::rpc {

// A fixed number of threads that run tasks in the order in which they were
// posted. Calls and streams read files and the queue on these threads, so that
// neither gRPC's own threads nor the thread that reports progress wait for a
// disk. Tasks do not throw. Thread-safe.
class Executor {
 public:
  explicit Executor(int threads);
  // Runs the posted tasks, then joins the threads. A task may post further
  // tasks until then.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(std::function<void()> task);
  // False, without posting, if `max_waiting` tasks wait for a thread.
  bool TryPost(std::function<void()> task, size_t max_waiting);

 private:
  void Loop();
  bool Ready() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !tasks_.empty();
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_EXECUTOR_H_
