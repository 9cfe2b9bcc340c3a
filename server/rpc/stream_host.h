// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STREAM_HOST_H_
#define MPSD_SERVER_RPC_STREAM_HOST_H_

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/access/rules.h"
#include "server/rpc/barrier.h"
#include "server/rpc/executor.h"

namespace mpsd::rpc {

// A stream that can be ended early. Both calls come from any thread and do not
// block.
class ClosableStream {
 public:
  using Clock = std::chrono::steady_clock;

  // Ends the stream with this error soon.
  virtual void Close(const absl::Status& why) = 0;
  // Ends the stream if it has waited for its client since before `since`, or at
  // all after Close.
  virtual void EndIfIdle(Clock::time_point since) = 0;

 protected:
  ~ClosableStream() = default;
};

// The live streams of one kind and the threads that feed them. Thread-safe. The
// host must outlive its streams.
class StreamHost {
 public:
  struct Limits {
    int streams = 1024;    // at a time, of all users
    int of_a_user = 1024;  // at a time, of one user
    // How long a stream may wait for its client.
    absl::Duration idle = absl::InfiniteDuration();
  };

  explicit StreamHost(int threads, Barrier barrier = Barrier())
      : StreamHost(threads, Limits(), std::move(barrier)) {}
  StreamHost(int threads, Limits limits, Barrier barrier)
      : limits_(limits), barrier_(std::move(barrier)), executor_(threads) {}

  Executor& executor() { return executor_; }
  const Barrier& barrier() const { return barrier_; }

  // Adds a stream; closes it at once if it is added after CloseAll.
  // Unavailable, without adding it, if the maximum number of streams exists.
  absl::Status Add(ClosableStream& stream, const access::Caller& caller);
  // Harmless for a stream that was not added.
  void Remove(ClosableStream& stream);
  void CloseAll();
  // Ends the streams of callers with `credential` (access::Caller::credential),
  // with UNAUTHENTICATED; returns how many.
  int CloseOf(const std::string& credential);
  // The server calls this periodically.
  void EndIdle(ClosableStream::Clock::time_point now);
  int live() const;

 private:
  struct Owner {
    std::string user;
    std::string credential;
  };

  const Limits limits_;
  const Barrier barrier_;
  mutable absl::Mutex mutex_;
  std::map<ClosableStream*, Owner> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> of_user_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Executor executor_;  // last: its tasks use the members above
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STREAM_HOST_H_
