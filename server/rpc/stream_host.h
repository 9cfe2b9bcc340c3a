// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STREAM_HOST_H_
#define MPSD_SERVER_RPC_STREAM_HOST_H_

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/executor.h"

namespace mpsd::rpc {

// A stream that can be asked to end before its time.
class ClosableStream {
 public:
  // Ends it with UNAVAILABLE soon. Any thread; does not block.
  virtual void Close() = 0;

 protected:
  ~ClosableStream() = default;
};

// The live server streams and the threads that feed them. Thread-safe. Outlives
// its streams.
class StreamHost {
 public:
  explicit StreamHost(int threads) : executor_(threads) {}

  Executor& executor() { return executor_; }

  // A stream added after CloseAll is closed at once.
  void Add(ClosableStream& stream);
  void Remove(ClosableStream& stream);
  void CloseAll();
  int live() const;

 private:
  mutable absl::Mutex mutex_;
  std::set<ClosableStream*> streams_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Executor executor_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STREAM_HOST_H_
