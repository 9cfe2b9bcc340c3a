// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SOURCE_STREAM_H_
#define MPSD_SERVER_RPC_SOURCE_STREAM_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/status.h"
#include "server/rpc/stream_host.h"

namespace mpsd::rpc {

enum class Pull {
  kMessage,  // the message is filled in: send it
  kWait,     // nothing yet: call Next again after a wake-up
  kMore,     // nothing yet: call Next again, after other streams
  kEnd,      // end the stream with OK
};

// Produces a server stream, one message a call. One thread at a time calls it,
// never a thread of gRPC's, so it may read files. An error ends the stream.
template <typename Message>
class Source {
 public:
  virtual ~Source() = default;
  virtual absl::StatusOr<Pull> Next(Message& message) = 0;
};

// Tells the stream that a source which returned kWait may have more. Callable
// on any thread and at any time, also after the stream is gone; does not block.
using Wake = std::function<void()>;

// Runs a server stream: pulls messages from a Source on the host's threads,
// with at most one write outstanding, so that a slow client holds back its own
// source and nothing else. The stream ends when its client is gone.
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
  using MakeSource = std::function<std::unique_ptr<Source<Message>>(Wake)>;

  // Returns the reactor for gRPC, which lives until its call is done. The
  // source is destroyed with the call. `rpc` is "Service.Method", a literal.
  static grpc::ServerWriteReactor<Message>* Start(
      grpc::CallbackServerContext& context, StreamHost& host, const char* rpc,
      const MakeSource& make) {
    std::shared_ptr<SourceStream> stream(new SourceStream(context, host, rpc));
    stream->self_ = stream;
    std::weak_ptr<SourceStream> weak = stream;
    stream->made_ = host.barrier().Run(rpc, [&] {
      stream->source_ = make([weak] {
        if (auto alive = weak.lock()) alive->OnWake();
      });
      return host.Add(*stream, context.peer());
    });
    {
      absl::MutexLock lock(&stream->mutex_);
      stream->state_ = State::kPulling;
    }
    stream->PostPull();
    return stream.get();
  }

  void Close() override {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    OnWake();
  }
  // Cancels the call of a client that reads nothing. The client learns no
  // reason, because it has not read the earlier messages.
  void EndIfIdle(Clock::time_point since) override {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ != State::kWriting || writing_since_ > since) return;
    }
    context_.TryCancel();
  }

 private:
  enum class State { kStarting, kPulling, kWriting, kIdle, kEnded };

  SourceStream(grpc::CallbackServerContext& context, StreamHost& host,
               const char* rpc)
      : context_(context), host_(host), rpc_(rpc) {}

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the client is gone"));
    {
      absl::MutexLock lock(&mutex_);
      base::Check(state_ == State::kWriting, "a write ends after it began");
      state_ = State::kPulling;
    }
    PostPull();
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
    {
      // The critical section is empty: it orders OnDone after End() for
      // ThreadSanitizer, which cannot see gRPC's own ordering.
      absl::MutexLock lock(&mutex_);
    }
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
    if (closing_) return absl::UnavailableError("mpsd is stopping");
    return absl::OkStatus();
  }

  absl::StatusOr<Pull> NextMessage() {
    if (!made_.ok()) return made_;
    absl::StatusOr<Pull> pulled;
    absl::Status caught = host_.barrier().Run(rpc_, [&] {
      message_.Clear();
      pulled = source_->Next(message_);
      return pulled.status();
    });
    if (!caught.ok()) return caught;
    return pulled;
  }

  // A wake-up may come between NextMessage and this lock. It leaves woken_ set,
  // and the stream pulls again instead of sleeping through the news.
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
    }
    this->Finish(ToGrpc(status));
  }

  grpc::CallbackServerContext& context_;
  StreamHost& host_;
  const char* const rpc_;
  absl::Status made_;                   // why the stream ends before it begins
  std::shared_ptr<SourceStream> self_;  // keeps the stream alive until OnDone
  std::unique_ptr<Source<Message>> source_;
  Message message_;

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  Clock::time_point writing_since_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // since the last BeginPull
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SOURCE_STREAM_H_
