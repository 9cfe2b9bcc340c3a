// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SINK_STREAM_H_
#define MPSD_SERVER_RPC_SINK_STREAM_H_

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

enum class Push {
  kMore,  // read the next message
  kEnd,   // the answer is known: leave the rest unread
};

// Takes a client's stream, one message a call, and fills in the answer. One
// thread at a time calls it, never a thread of gRPC's, so it may write files.
// An error ends the stream.
template <typename Message>
class Sink {
 public:
  virtual ~Sink() = default;
  virtual absl::StatusOr<Push> Take(const Message& message) = 0;
  // Called once the client has sent everything.
  virtual absl::Status End() = 0;
};

// Runs a client stream: reads one message, gives it to the sink on the host's
// threads, then reads the next. So a client sends no faster than the disk
// writes, and one message a stream is in memory. Deletes itself when the call
// is done.
//
//   reading ⇄ taking
//   reading, taking → ended
template <typename Message>
class SinkStream final : public grpc::ServerReadReactor<Message>,
                         public ClosableStream {
 public:
  // Returns the reactor for gRPC. `rpc` is "Service.Method", a literal.
  static grpc::ServerReadReactor<Message>* Start(
      grpc::CallbackServerContext& context, StreamHost& host, const char* rpc,
      std::unique_ptr<Sink<Message>> sink) {
    auto* stream = new SinkStream(context, host, rpc, std::move(sink));
    const absl::Status added = host.Add(*stream, context.peer());
    if (added.ok()) {
      stream->Read();
    } else {
      stream->End(added);
    }
    return stream;
  }

  void Close() override {
    EndReading(Clock::time_point::max(),
               absl::UnavailableError("mpsd is stopping"));
  }
  void EndIfIdle(Clock::time_point since) override {
    EndReading(since, absl::DeadlineExceededError(
                          "nothing came for too long: send it again"));
  }

 private:
  enum class State { kReading, kTaking, kEnded };

  SinkStream(grpc::CallbackServerContext& context, StreamHost& host,
             const char* rpc, std::unique_ptr<Sink<Message>> sink)
      : context_(context), host_(host), rpc_(rpc), sink_(std::move(sink)) {}

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ == State::kEnded) return;
      state_ = State::kTaking;
    }
    host_.executor().Post([this, ok] { ok ? Take() : TakeEnd(); });
  }
  void OnDone() override {
    host_.Remove(*this);
    delete this;
  }

  // Take and TakeEnd end the call or ask for the next message; after that the
  // stream may be gone.
  void Take() {
    Push push = Push::kEnd;
    const absl::Status taken = host_.barrier().Run(rpc_, [&] {
      absl::StatusOr<Push> pushed = sink_->Take(message_);
      if (pushed.ok()) push = *pushed;
      return pushed.status();
    });
    taken.ok() && push == Push::kMore ? Read() : End(taken);
  }
  void TakeEnd() {
    End(context_.IsCancelled()
            ? absl::CancelledError("the stream broke off")
            : host_.barrier().Run(rpc_, [this] { return sink_->End(); }));
  }

  void Read() {
    {
      absl::MutexLock lock(&mutex_);
      base::Check(state_ == State::kTaking, "one read is under way at most");
      state_ = State::kReading;
      reading_since_ = Clock::now();
    }
    this->StartRead(&message_);
  }
  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      base::Check(state_ == State::kTaking, "a stream ends once");
      state_ = State::kEnded;
    }
    sink_.reset();
    this->Finish(ToGrpc(status));
  }
  // Finish makes the outstanding read fail; OnReadDone then finds kEnded and
  // leaves the stream alone.
  void EndReading(Clock::time_point since, const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ != State::kReading || reading_since_ > since) return;
      state_ = State::kEnded;
    }
    this->Finish(ToGrpc(status));
  }

  grpc::CallbackServerContext& context_;
  StreamHost& host_;
  const char* const rpc_;
  std::unique_ptr<Sink<Message>> sink_;
  Message message_;

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kTaking;
  Clock::time_point reading_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SINK_STREAM_H_
