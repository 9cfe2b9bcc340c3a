// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SOURCE_STREAM_H_
#define MPSD_SERVER_RPC_SOURCE_STREAM_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/gate.h"
#include "server/rpc/status.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/stream_note.h"

namespace mpsd::rpc {

enum class Pull {
  kMessage,  // the message is filled in: send it
  kWait,     // nothing yet: call Next again after a wake-up
  kMore,     // nothing yet: call Next again, after other streams
  kEnd,      // end the stream with OK
};

// Produces a server stream, one message per call. One thread at a time calls
// it, never a gRPC thread, so it may read files. An error ends the stream.
template <typename Message>
class Source {
 public:
  virtual ~Source() = default;
  virtual absl::StatusOr<Pull> Next(Message& message) = 0;
};

// Notifies the stream that a source which returned kWait may have more.
// Callable on any thread and at any time, even after the stream is gone; does
// not block.
using Wake = std::function<void()>;

// Runs a server stream: pulls messages from a Source on the host's threads,
// with at most one write outstanding, so that a slow client only delays its own
// source. The stream ends when its client is gone.
//
//   starting → pulling ⇄ writing
//              pulling ⇄ idle
//              pulling, writing → ended
template <typename Message>
class SourceStream final
    : public grpc::ServerWriteReactor<Message>,
      public ClosableStream,
      public std::enable_shared_from_this<SourceStream<Message>> {
 public:
  using MakeSource = std::function<std::unique_ptr<Source<Message>>(
      const access::Rights&, Wake)>;

  // Returns the reactor for gRPC, which lives until its call is done. The
  // source is destroyed with the call. It is made if the gate admits the
  // caller, and used if the gate lets the call begin.
  static grpc::ServerWriteReactor<Message>* Start(
      grpc::CallbackServerContext& context, const Gate& gate, StreamHost& host,
      Asked asked, const MakeSource& make) {
    std::shared_ptr<SourceStream> stream(
        new SourceStream(context, gate, host, std::move(asked)));
    stream->self_ = stream;
    const absl::Status made =
        host.barrier().Run(stream->rpc_, [&] { return stream->Make(make); });
    if (made.ok()) {
      stream->Resume();
    } else {
      stream->End(made);
    }
    return stream.get();
  }

  void Close(const absl::Status& why) override {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = why;
    }
    OnWake();
  }
  // Cancels the call of a client that does not read, even if that is why the
  // stream was closed. The client gets no reason, because it has not read the
  // earlier messages.
  void EndIfIdle(Clock::time_point since) override {
    {
      absl::MutexLock lock(&mutex_);
      const bool idle = writing_since_ <= since || !closing_.ok();
      if (state_ != State::kWriting || !idle) return;
    }
    context_.TryCancel();
  }

 private:
  enum class State { kStarting, kPulling, kWriting, kIdle, kEnded };

  SourceStream(grpc::CallbackServerContext& context, const Gate& gate,
               StreamHost& host, Asked asked)
      : context_(context),
        gate_(gate),
        host_(host),
        asked_(std::move(asked)),
        rpc_(asked_.method.rule().method),
        note_(gate, host) {}

  absl::Status Make(const MakeSource& make) {
    ASSIGN_OR_RETURN(access::Rights rights,
                     gate_.EnterStream(context_, asked_, host_, *this));
    rights_ = std::move(rights);
    source_ = make(*rights_, [weak = this->weak_from_this()] {
      if (auto alive = weak.lock()) alive->OnWake();
    });
    return absl::OkStatus();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the client is gone"));
    Resume();
  }

  void OnCancel() override {
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
    }
    OnWake();
  }

  // No thread uses source_ any more: the last thread that did called Finish.
  void OnDone() override {
    // Ended's lock orders OnDone after End() for ThreadSanitizer.
    note_.End(Ended());
    host_.Remove(*this);
    source_.reset();
    std::shared_ptr<SourceStream> last = std::move(self_);
  }

  void OnWake() {
    {
      absl::MutexLock lock(&mutex_);
      woken_ = true;
      if (state_ != State::kIdle) return;
      state_ = State::kPulling;
    }
    PostPull();
  }

  // Begins to pull, or continues after a write.
  void Resume() {
    {
      absl::MutexLock lock(&mutex_);
      state_ = State::kPulling;
    }
    PostPull();
  }

  void PostPull() {
    host_.executor().Post(
        [alive = this->shared_from_this()] { alive->PullUntilWaiting(); });
  }

  void PullUntilWaiting() {
    while (true) {
      absl::Status stop = BeginPull();
      if (!stop.ok()) return End(stop);
      absl::StatusOr<Pull> pulled = NextMessage();
      if (!pulled.ok()) return End(pulled.status());
      if (*pulled == Pull::kEnd) return End(absl::OkStatus());
      if (*pulled == Pull::kMessage) return Write();
      if (*pulled == Pull::kMore) return PostPull();
      if (BecameIdle()) return;
    }
  }

  absl::Status BeginPull() {
    absl::MutexLock lock(&mutex_);
    woken_ = false;
    if (cancelled_) return absl::CancelledError("the client cancelled");
    return closing_;
  }

  absl::StatusOr<Pull> NextMessage() {
    absl::StatusOr<Pull> pulled;
    RETURN_IF_ERROR(host_.barrier().Run(rpc_, [&] {
      if (absl::Status may = note_.BeginOnce(asked_, *rights_); !may.ok())
        return may;
      message_.Clear();
      pulled = source_->Next(message_);
      return pulled.status();
    }));
    return pulled;
  }

  absl::Status Ended() {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

  // A wake-up may come between NextMessage and this lock. It leaves woken_ set,
  // and the stream pulls again instead of missing the news.
  bool BecameIdle() {
    absl::MutexLock lock(&mutex_);
    if (woken_) return false;
    base::Check(state_ == State::kPulling, "one thread at a time pulls");
    state_ = State::kIdle;
    return true;
  }

  void Write() {
    {
      absl::MutexLock lock(&mutex_);
      base::Check(state_ == State::kPulling, "one write is under way at most");
      state_ = State::kWriting;
      writing_since_ = Clock::now();
    }
    this->StartWrite(&message_);
  }

  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      base::Check(state_ != State::kEnded, "a stream ends once");
      state_ = State::kEnded;
      ended_ = status;
    }
    this->Finish(ToGrpc(status));
  }

  grpc::CallbackServerContext& context_;
  const Gate& gate_;
  StreamHost& host_;
  const Asked asked_;
  const char* const rpc_;
  StreamNote note_;
  std::optional<access::Rights> rights_;  // from the gate's Enter on
  std::shared_ptr<SourceStream> self_;    // keeps the stream alive until OnDone
  std::unique_ptr<Source<Message>> source_;
  Message message_;

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  Clock::time_point writing_since_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // since the last BeginPull
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status closing_ ABSL_GUARDED_BY(mutex_);  // why the stream must end
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);    // the client's status
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SOURCE_STREAM_H_
