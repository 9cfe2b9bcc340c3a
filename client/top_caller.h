// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_CALLER_H_
#define MPSD_CLIENT_TOP_CALLER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <functional>
#include <ostream>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/address.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/terminal.h"

namespace mpsd::client {

// A thread that calls the daemon over a connection of its own, and whose calls
// and pauses other threads can break off.
class Caller {
 public:
  explicit Caller(Address address);
  virtual ~Caller() = default;
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Breaks off what is under way; `stop`: for good. Any thread may call it.
  void Break(bool stop);
  // Waits for the end of the thread, which comes after Break(true).
  void Join();

 protected:
  // Runs `run` on the thread. For constructors of derived classes, which are
  // complete when they call it.
  void Start(std::function<void()> run);

  // One call; Break cancels it.
  class Call {
   public:
    explicit Call(Caller& caller);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    // For a stream.
    grpc::ClientContext* context() { return &context_; }
    // For a call that has 10 s to answer.
    grpc::ClientContext* hurried();

   private:
    Caller& caller_;
    grpc::ClientContext context_;
  };

  // Until Break, at most.
  void Sleep(absl::Duration pause);
  // Whether Break was called since the last Resume.
  const std::atomic<bool>& broken() const { return broken_; }
  // Forgets a Break; false once the caller was stopped.
  bool Resume();

  v1::JobService::Stub& jobs() { return connection_.jobs(); }
  v1::DaemonService::Stub& daemon() { return connection_.daemon(); }
  // Why no tunnel leads to a daemon behind ssh.
  absl::Status tunnel_status() const { return connection_.tunnel_status(); }
  // Prints nowhere; its pauses end with Break.
  const Console& console() const { return console_; }

 private:
  std::ostream nowhere_{nullptr};
  Terminal terminal_;
  Connection connection_;
  const Console console_;
  absl::Mutex mutex_;
  std::atomic<bool> broken_{false};  // written under mutex_
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

// A caller that follows a stream of one job after another, however often the
// stream breaks.
class Follower : public Caller {
 public:
  using Caller::Caller;

  // From now on follows another job; an empty id: none.
  void Follow(const std::string& id);

 protected:
  // What the thread does.
  void Run();

 private:
  // Another job is followed, from its beginning on.
  virtual void Begin(const std::string& id) = 0;
  // Reads what is new until the stream ends; sets *received if there was
  // something.
  virtual grpc::Status Stream(const std::string& id, bool* received) = 0;
  // The job does not exist: the stream is not tried again.
  virtual void GiveUp(const std::string& id, const grpc::Status& status) = 0;

  absl::Mutex wish_mutex_;
  std::string wish_ ABSL_GUARDED_BY(wish_mutex_);
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TOP_CALLER_H_
