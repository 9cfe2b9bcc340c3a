// SPDX-License-Identifier: Apache-2.0
#pragma once

// How streams run: a Source makes the messages of a server stream, a Sink takes
// those of a client stream; neither sees gRPC.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "grpcpp/grpcpp.h"
#include "server/access/rules.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/rpc/hosts.h"

namespace mpsd::rpc {

// Of a call whose client went, or sends none.
inline absl::Status NoRequest() {
  return absl::InvalidArgumentError("request: is missing");
}

// A call of one request and one answer; deletes itself when the call is done.
class OneRequest final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  // `then` gets the call with its bytes, on a gRPC thread, and has it finished.
  explicit OneRequest(std::function<void(OneRequest&)> then)
      : then_(std::move(then)) {
    StartRead(&bytes);
  }

  grpc::ByteBuffer bytes;
  std::shared_ptr<void> answer;  // UnreadAnswers::Add, if there is one

 private:
  // A call whose answer waits keeps nothing of its request.
  void OnReadDone(bool ok) override {
    const auto then = std::exchange(then_, nullptr);
    ok ? then(*this) : Finish(ToGrpc(NoRequest()));
  }
  void OnDone() override { delete this; }

  std::function<void(OneRequest&)> then_;
};

// What every stream has: a caller whom the gate admitted, a place in the host,
// and an entry in the audit from its first message to its end. `gate` and
// `host` must outlive the stream.
class AdmittedStream : public ClosableStream {
 public:
  AdmittedStream(grpc::CallbackServerContext& context, const Gate& gate,
                 StreamHost& host, access::Method method)
      : context_(context),
        host_(host),
        rpc_(method.rule().method),
        asked_{method},
        gate_(gate) {}

 protected:
  ~AdmittedStream() = default;

  // If the gate admits the stream, it is in the host, and its caller known.
  absl::Status Enter(const Ask& ask) {
    ASSIGN_OR_RETURN(
        rights_, gate_.EnterStream(context_, asked_.method, ask, host_, *this));
    return absl::OkStatus();
  }
  const access::Rights& rights() const { return *rights_; }
  // Runs the task on the host's threads, in its user's turn.
  void Post(std::function<void()> task) {
    host_.executor().Post(rights_->caller().user, std::move(task));
  }
  // Calls the gate's Begin on its first call, after Enter; one thread at a time
  // calls it. The stream continues if this is OK.
  absl::Status BeginOnce() {
    if (begun_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t entry, gate_.Begin(asked_, *rights_));
    begun_ = true;
    absl::MutexLock lock(&mutex_);
    entry_ = entry;
    return absl::OkStatus();
  }
  // The call is done. Never blocks: the audit waits for the store, and this is
  // a gRPC thread.
  void Leave() {
    {
      // The lock also orders OnDone after the end for ThreadSanitizer.
      absl::MutexLock lock(&mutex_);
      if (entry_ != 0) {
        Post([&gate = gate_, entry = entry_, ended = ended_] {
          gate.End(entry, ended, "");
        });
      }
    }
    host_.Remove(*this);
  }

  grpc::CallbackServerContext& context_;
  StreamHost& host_;
  const char* const rpc_;
  Asked asked_;
  absl::Mutex mutex_;
  absl::Status closing_ ABSL_GUARDED_BY(mutex_);  // why the stream must end
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);    // the client's status

 private:
  const Gate& gate_;
  std::optional<access::Rights> rights_;  // from Enter on
  bool begun_ = false;
  int64_t entry_ ABSL_GUARDED_BY(mutex_) = 0;
};

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
//   starting (until the request is there) → pulling ⇄ writing
//              pulling ⇄ idle
//              pulling, writing → ended
template <typename Message>
class SourceStream final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, Message>,
      public AdmittedStream,
      public std::enable_shared_from_this<SourceStream<Message>> {
 public:
  using MakeSource = std::function<std::unique_ptr<Source<Message>>(
      const access::Rights&, Wake)>;

  // Returns the reactor for gRPC, which lives until its call is done. If the
  // gate admits the caller, the host's threads call what `ask` makes and, if
  // the gate lets the call begin, `make`. Neither is kept any longer, and so
  // the request is not. The source is destroyed with the call.
  static grpc::ServerBidiReactor<grpc::ByteBuffer, Message>* Start(
      grpc::CallbackServerContext& context, const Gate& gate, StreamHost& host,
      access::Method method, MakeAsk ask, MakeSource make) {
    std::shared_ptr<SourceStream> stream(
        new SourceStream(context, gate, host, method));
    stream->self_ = stream;
    stream->make_ask_ = std::move(ask);
    stream->make_ = std::move(make);
    stream->StartRead(&stream->bytes_);
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

  using AdmittedStream::AdmittedStream;

  // Neither the host nor anybody else knows the stream before.
  void OnReadDone(bool ok) override {
    if (!ok) return End(NoRequest());
    const absl::Status entered = host_.barrier().Run(rpc_, [this] {
      ask_ = make_ask_(bytes_);
      return Enter(ask_);
    });
    if (!entered.ok()) return End(entered);
    Resume();
  }

  absl::Status Make() {
    const absl::Status read = ask_.read(asked_);
    RETURN_IF_ERROR(BeginOnce());
    RETURN_IF_ERROR(read);
    source_ = make_(rights(), [weak = this->weak_from_this()] {
      if (auto alive = weak.lock()) alive->OnWake();
    });
    ask_ = {};
    make_ask_ = nullptr;
    make_ = nullptr;
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
    Leave();
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
    Post([alive = this->shared_from_this()] { alive->PullUntilWaiting(); });
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
      if (source_ == nullptr) {
        RETURN_IF_ERROR(Make());
      }
      message_.Clear();
      pulled = source_->Next(message_);
      return pulled.status();
    }));
    return pulled;
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

  std::shared_ptr<SourceStream> self_;  // keeps the stream alive until OnDone
  grpc::ByteBuffer bytes_;
  MakeAsk make_ask_;
  Ask ask_;
  MakeSource make_;
  std::unique_ptr<Source<Message>> source_;
  Message message_;

  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  Clock::time_point writing_since_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // since the last BeginPull
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

enum class Push {
  kMore,  // read the next message
  kEnd,   // the result is known: leave the rest unread
  kBusy,  // call Resume before the next message
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
  virtual absl::StatusOr<Push> Resume() { return Push::kMore; }
  // Called once the client has sent everything.
  virtual absl::Status End() = 0;
};

// Runs a client stream: reads one message's bytes, parses them and gives the
// message to the sink on the host's threads, then reads the next. So a client
// sends no faster than the disk writes, and one message per stream is in
// memory. Deletes itself when the call is done.
//
//   reading ⇄ taking
//   reading, taking → ended
template <typename Message>
class SinkStream final : public grpc::ServerReadReactor<grpc::ByteBuffer>,
                         public AdmittedStream {
 public:
  using MakeSink =
      std::function<std::unique_ptr<Sink<Message>>(const access::Rights&)>;

  // Returns the reactor for gRPC. The sink is made if the gate admits the
  // caller. A message has at most `most_bytes`.
  static grpc::ServerReadReactor<grpc::ByteBuffer>* Start(
      grpc::CallbackServerContext& context, const Gate& gate, StreamHost& host,
      access::Method method, size_t most_bytes, const MakeSink& make) {
    auto* stream = new SinkStream(context, gate, host, method);
    stream->most_bytes_ = most_bytes;
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

  using AdmittedStream::AdmittedStream;

  absl::Status Make(const MakeSink& make) {
    RETURN_IF_ERROR(Enter({}));
    sink_ = make(rights());
    return absl::OkStatus();
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ == State::kEnded) return;
      state_ = State::kTaking;
    }
    Post([this, ok] { ok ? Take() : TakeEnd(); });
  }
  void OnDone() override {
    Leave();
    delete this;
  }

  // Take, Resume and TakeEnd end the call or request the next message; after
  // that the stream may be gone.
  void Take() {
    Work([this]() -> absl::StatusOr<Push> {
      RETURN_IF_ERROR(BeginOnce());
      RETURN_IF_ERROR(ParseRequest(bytes_, most_bytes_, message_));
      return sink_->Take(message_);
    });
  }
  void Resume() {
    Work([this]() -> absl::StatusOr<Push> {
      if (context_.IsCancelled()) {
        return absl::CancelledError("the stream was interrupted");
      }
      {
        absl::MutexLock lock(&mutex_);
        if (!closing_.ok()) return closing_;
      }
      return sink_->Resume();
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
    Post([this] { Resume(); });
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
        this->StartRead(&bytes_);
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

  size_t most_bytes_ = 0;
  std::unique_ptr<Sink<Message>> sink_;
  grpc::ByteBuffer bytes_;
  Message message_;

  State state_ ABSL_GUARDED_BY(mutex_) = State::kTaking;
  Clock::time_point reading_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc
