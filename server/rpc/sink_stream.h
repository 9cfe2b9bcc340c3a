// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SINK_STREAM_H_
#define MPSD_SERVER_RPC_SINK_STREAM_H_

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

enum class Push {
  kMore,  // read the next message
  kEnd,   // the result is known: leave the rest unread
  kBusy,  // call GoOn before the next message
};

// Takes a client's stream, one message per call, and fills in the response. One
// thread at a time calls it, never a gRPC thread, so it may write files. An
// error ends the stream.
template <typename Message>
class Sink {
 public:
  virtual ~Sink() = default;
  virtual absl::StatusOr<Push> Take(const Message& message) = 0;
  // Work that a message left, of some milliseconds: other streams get the
  // thread between two pieces.
  virtual absl::StatusOr<Push> GoOn() { return Push::kMore; }
  // Called once the client has sent everything.
  virtual absl::Status End() = 0;
};

// Runs a client stream: reads one message, gives it to the sink on the host's
// threads, then reads the next. So a client sends no faster than the disk
// writes, and one message per stream is in memory. Deletes itself when the call
// is done.
//
//   reading ⇄ taking
//   reading, taking → ended
template <typename Message>
class SinkStream final : public grpc::ServerReadReactor<Message>,
                         public ClosableStream {
 public:
  using MakeSink =
      std::function<std::unique_ptr<Sink<Message>>(const access::Rights&)>;

  // Returns the reactor for gRPC. The sink is made if the gate admits the
  // caller.
  static grpc::ServerReadReactor<Message>* Start(
      grpc::CallbackServerContext& context, const Gate& gate, StreamHost& host,
      Asked asked, const MakeSink& make) {
    auto* stream = new SinkStream(context, gate, host, std::move(asked));
    const absl::Status made =
        host.barrier().Run(stream->rpc_, [&] { return stream->Make(make); });
    if (made.ok()) {
      stream->Read();
    } else {
      stream->End(made);
    }
    return stream;
  }

  void Close(const absl::Status& why) override {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = why;
    }
    EndReading(Clock::time_point::max(), why);
  }
  void EndIfIdle(Clock::time_point since) override {
    EndReading(since, absl::DeadlineExceededError(
                          "nothing arrived for too long: send it again"));
  }

 private:
  enum class State { kReading, kTaking, kEnded };

  SinkStream(grpc::CallbackServerContext& context, const Gate& gate,
             StreamHost& host, Asked asked)
      : context_(context),
        gate_(gate),
        host_(host),
        asked_(std::move(asked)),
        rpc_(asked_.method.rule().method),
        note_(gate, host) {}

  absl::Status Make(const MakeSink& make) {
    ASSIGN_OR_RETURN(access::Rights rights,
                     gate_.EnterStream(context_, asked_, host_, *this));
    rights_ = std::move(rights);
    sink_ = make(*rights_);
    return absl::OkStatus();
  }

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
    note_.End(Ended());
    delete this;
  }

  absl::Status Ended() {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

  // Take, GoOn and TakeEnd end the call or request the next message; after that
  // the stream may be gone.
  void Take() {
    Work([this]() -> absl::StatusOr<Push> {
      if (absl::Status may = note_.BeginOnce(asked_, *rights_); !may.ok())
        return may;
      return sink_->Take(message_);
    });
  }
  void GoOn() {
    Work([this]() -> absl::StatusOr<Push> {
      if (context_.IsCancelled()) {
        return absl::CancelledError("the stream was interrupted");
      }
      {
        absl::MutexLock lock(&mutex_);
        if (!closing_.ok()) return closing_;
      }
      return sink_->GoOn();
    });
  }
  void Work(const std::function<absl::StatusOr<Push>()>& work) {
    Push push = Push::kEnd;
    const absl::Status done = host_.barrier().Run(rpc_, [&] {
      absl::StatusOr<Push> pushed = work();
      if (pushed.ok()) push = *pushed;
      return pushed.status();
    });
    if (!done.ok() || push == Push::kEnd) return End(done);
    if (push == Push::kMore) return Read();
    host_.executor().Post([this] { GoOn(); });
  }
  void TakeEnd() {
    End(context_.IsCancelled()
            ? absl::CancelledError("the stream was interrupted")
            : host_.barrier().Run(rpc_, [this] { return sink_->End(); }));
  }

  void Read() {
    absl::Status closing;
    {
      absl::MutexLock lock(&mutex_);
      base::Check(state_ == State::kTaking, "one read is under way at most");
      closing = closing_;
      if (closing.ok()) {
        state_ = State::kReading;
        reading_since_ = Clock::now();
        // Under the lock: Close ends the call of a stream that reads, after
        // which no read may start. gRPC calls OnReadDone on another thread.
        this->StartRead(&message_);
      }
    }
    if (!closing.ok()) End(closing);
  }
  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      base::Check(state_ == State::kTaking, "a stream ends once");
      state_ = State::kEnded;
      ended_ = status;
    }
    sink_.reset();
    this->Finish(ToGrpc(status));
  }
  // Ends the call if it has been reading since before `since`. Finish makes the
  // outstanding read fail; OnReadDone then finds kEnded and leaves the stream
  // alone.
  void EndReading(Clock::time_point since, const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ != State::kReading || reading_since_ > since) return;
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
  std::unique_ptr<Sink<Message>> sink_;
  Message message_;

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kTaking;
  Clock::time_point reading_since_ ABSL_GUARDED_BY(mutex_);
  absl::Status closing_ ABSL_GUARDED_BY(mutex_);  // why the stream must end
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);    // the client's status
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SINK_STREAM_H_
