// SPDX-License-Identifier: Apache-2.0
#pragma once

// The threads on which calls and streams run: gRPC's own threads only post
// tasks to them.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/access/rules.h"

namespace mpsd::rpc {

// Catches the exceptions of handlers, so that an exception ends only one call;
// gRPC would answer UNIMPLEMENTED or end the process. Thread-safe.
class Barrier {
 public:
  // `log` gets one line per exception: the RPC and the exception's type, never
  // its text, which may quote a user's data.
  explicit Barrier(std::function<void(const std::string&)> log = {})
      : log_(std::move(log)) {}

  // Returns the result of `work`; INTERNAL if `work` throws.
  absl::Status Run(const char* rpc,
                   absl::FunctionRef<absl::Status()> work) const;

 private:
  absl::Status ReportException(const char* rpc, const char* type) const;

  std::function<void(const std::string&)> log_;
};

// A fixed number of threads that run posted tasks. Users take turns: the tasks
// of one run in the order in which they were posted, on all threads but one, so
// that no user's tasks, however many or slow, hold up another's. Calls and
// streams read files and the queue on these threads, so that neither gRPC's own
// threads nor the thread that reports progress wait for a disk. Tasks do not
// throw. Thread-safe.
class Executor {
 public:
  // What may wait for a thread: of all users, and of one. A user who has
  // nothing waiting may post a task of any size.
  struct Room {
    size_t tasks, tasks_of_user;
    size_t bytes, bytes_of_user;
  };

  explicit Executor(int threads);
  // Runs the posted tasks, then joins the threads. A task may post further
  // tasks until then.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(const std::string& user, std::function<void()> task);
  // `bytes`: the memory that the task holds. False, without posting, if there
  // is no room.
  bool TryPost(const std::string& user, std::function<void()> task,
               size_t bytes, const Room& room);

 private:
  struct Task {
    std::function<void()> run;
    size_t bytes;
  };
  // One who has tasks that wait or run.
  struct User {
    std::deque<Task> waiting;
    size_t bytes = 0;  // of those that wait
    int running = 0;
  };
  using Turns = std::deque<std::map<std::string, User>::iterator>;

  void Loop();
  void Add(const std::string& user, Task task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first user in turns_ who has a thread left.
  Turns::const_iterator Next() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool Ready() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return turns_.empty() ? stopping_ : Next() != turns_.end();
  }

  const int threads_of_user_;
  absl::Mutex mutex_;
  std::map<std::string, User> users_ ABSL_GUARDED_BY(mutex_);
  Turns turns_ ABSL_GUARDED_BY(mutex_);  // users with tasks that wait
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The threads on which unary calls of one kind run, and how many calls may wait
// for a thread, of which one user gets three quarters. Slow kinds of calls have
// their own host, so that other calls never queue after them. Thread-safe. The
// host must outlive its calls.
class CallHost {
 public:
  CallHost(int threads, size_t max_waiting, Barrier barrier)
      : room_{max_waiting, max_waiting - max_waiting / 4, kWaitingBytes,
              kWaitingBytes / 2},
        barrier_(std::move(barrier)),
        executor_(threads) {}

  // Ends waiting calls with UNAVAILABLE, and makes running calls see that no
  // client waits any more.
  void Close() { closed_ = true; }

  bool closed() const { return closed_; }
  // False, without posting, if too many calls wait already.
  bool Post(const std::string& user, size_t bytes, std::function<void()> task) {
    return executor_.TryPost(user, std::move(task), bytes, room_);
  }
  const Barrier& barrier() const { return barrier_; }

 private:
  // The requests that wait for a thread.
  static constexpr size_t kWaitingBytes = 64 << 20;

  const Executor::Room room_;
  const Barrier barrier_;
  std::atomic<bool> closed_ = false;
  Executor executor_;  // last: its tasks use the members above
};

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
