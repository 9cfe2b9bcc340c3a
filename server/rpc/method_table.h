// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/jobs.grpc.pb.h"  // and what generated code includes
#include "server/access/rules.h"
#include "server/rpc/access_calls.h"
#include "server/rpc/check.h"
#include "server/rpc/gate.h"
#include "server/rpc/streams.h"

namespace mpsd::rpc {

// Answers of calls that wait for their clients to read them: HTTP/2 lets a
// client put that off. Thread-safe.
class UnreadAnswers {
 public:
  using Clock = std::chrono::steady_clock;

  // Whether a further call of `user` may be answered.
  bool HasRoom(const std::string& user) const;
  // Counts an answer of so many bytes until the result is destroyed. `cancel`
  // does not block, and ends the call on another thread.
  std::shared_ptr<void> Add(const std::string& user, size_t bytes,
                            std::function<void()> cancel);
  // Cancels the calls whose answers have waited since before `since`.
  void EndIdle(Clock::time_point since);

 private:
  struct Answer {
    std::string user;
    size_t bytes;
    std::function<void()> cancel;
    Clock::time_point since;
  };
  static constexpr size_t kBytesOfUser = 40 << 20;
  static constexpr size_t kCallBytes = 16 << 10;  // of a call without an answer

  mutable absl::Mutex mutex_;
  std::list<Answer> answers_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  std::map<std::string, size_t> of_user_ ABSL_GUARDED_BY(mutex_);
};

// Receives the call's request, runs `work` on a thread of the host, in the turn
// of the call's user, and answers the call with the status, so that a handler
// is one line. Before that the thread reads the request. `work` does not run if
// the request cannot be read, if the gate refuses the call, or if the client is
// gone or the deadline has passed before its turn. UNAVAILABLE if the host has
// no room, or the user has no room for answers in `unread`. Work of several
// steps checks between them whether the client still waits. It fills in
// `answer`, which the call owns.
OneRequest* Answer(grpc::CallbackServerContext* context, const Gate& gate,
                   CallHost& host, UnreadAnswers& unread, access::Method method,
                   MakeAsk ask, std::function<absl::Status(Call&)> work,
                   const grpc::ByteBuffer* answer);

// The methods that mpsd serves, a row each. A row takes messages as bytes: they
// are parsed on the host's threads, once the caller's role is known to suffice,
// and not if they are over the row's bound. To gRPC each method takes a stream
// of messages, so that a call is seen before its request has come; its type is
// CLIENT_STREAMING if a second message may follow. The job and the words of the
// audit are read from the request (`id`, `job_id`, AuditDetail).
// The gate and the hosts must outlive the table, and the table the server.
class MethodTable {
 public:
  explicit MethodTable(const Gate& gate) : gate_(gate) {}
  MethodTable(const MethodTable&) = delete;
  MethodTable& operator=(const MethodTable&) = delete;

  // One request, one answer; `handle` runs on a thread of `host`. See Answer.
  template <typename Request, typename Response>
  void Unary(access::Method method, CallHost& host,
             std::function<absl::Status(Call&, Request&, Response&)> handle,
             size_t most_bytes = kRequestBytes) {
    auto answer = [=, this, &host, handle = std::move(handle)](
                      grpc::CallbackServerContext* context,
                      grpc::ByteBuffer* response) {
      const auto request = std::make_shared<Request>();
      return Answer(
          context, gate_, host, unread_, method, AskFor(most_bytes, request),
          [=](Call& call) -> absl::Status {
            Response made;
            RETURN_IF_ERROR(handle(call, *request, made));
            bool is_own;
            return grpc::SerializationTraits<Response>::Serialize(
                       made, response, &is_own)
                           .ok()
                       ? absl::OkStatus()
                       : absl::InternalError("the answer is too large");
          },
          response);
    };
    Add(method, grpc::internal::RpcMethod::BIDI_STREAMING,
        Request::descriptor(), Response::descriptor(),
        new grpc::internal::CallbackClientStreamingHandler<grpc::ByteBuffer,
                                                           grpc::ByteBuffer>(
            std::move(answer)));
  }

  // One request, a stream of messages. `make` may take what it needs of the
  // request, which does not outlive it.
  template <typename Request, typename Message>
  void Sends(access::Method method, StreamHost& host,
             std::function<std::unique_ptr<Source<Message>>(
                 const access::Rights&, Request&, Wake)>
                 make,
             size_t most_bytes = kRequestBytes) {
    auto start = [=, this, &host, make = std::move(make)](
                     grpc::CallbackServerContext* context) {
      const auto request = std::make_shared<Request>();
      return SourceStream<Message>::Start(
          *context, gate_, host, method, AskFor(most_bytes, request),
          [=](const access::Rights& rights, Wake wake) {
            return make(rights, *request, std::move(wake));
          });
    };
    Add(method, grpc::internal::RpcMethod::BIDI_STREAMING,
        Request::descriptor(), Message::descriptor(),
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Message>(
            std::move(start)));
  }

  // A stream of messages, each of at most `most_bytes`, and one answer.
  template <typename Message, typename Response>
  void Receives(access::Method method, StreamHost& host, size_t most_bytes,
                std::function<std::unique_ptr<Sink<Message>>(
                    const access::Rights&, Response&)>
                    make) {
    auto start = [=, this, &host, make = std::move(make)](
                     grpc::CallbackServerContext* context, Response* response) {
      return SinkStream<Message>::Start(*context, gate_, host, method,
                                        most_bytes,
                                        [&](const access::Rights& rights) {
                                          return make(rights, *response);
                                        });
    };
    Add(method, grpc::internal::RpcMethod::CLIENT_STREAMING,
        Message::descriptor(), Response::descriptor(),
        new grpc::internal::CallbackClientStreamingHandler<grpc::ByteBuffer,
                                                           Response>(
            std::move(start)));
  }

  // Registers the services of all rows. Each method of such a service has a
  // row.
  void Register(grpc::ServerBuilder& builder);

  // Of the calls of one request and one answer.
  UnreadAnswers& unread() { return unread_; }

 private:
  // The methods of one service.
  class Service;

  // Reads `request` from the bytes, which `read` empties.
  template <typename Request>
  static MakeAsk AskFor(size_t most_bytes, std::shared_ptr<Request> request) {
    return [=](grpc::ByteBuffer& bytes) -> Ask {
      return {bytes.Length(), [=, &bytes](Asked& asked) -> absl::Status {
                RETURN_IF_ERROR(ParseRequest(bytes, most_bytes, *request));
                Describe(*request, asked);
                return absl::OkStatus();
              }};
    };
  }

  template <typename Request>
  static void Describe(const Request& request, Asked& asked) {
    if constexpr (requires { request.id(); }) asked.job_id = request.id();
    if constexpr (requires { request.job_id(); }) {
      asked.job_id = request.job_id();
    }
    if constexpr (requires { AuditDetail(request); }) {
      asked.detail = AuditDetail(request);
    }
    // The calls of Diagnose that have a rule of their own.
    if constexpr (requires { request.deep(); }) {
      if (request.deep()) asked.method = "RunbookService.Diagnose (deep)";
    }
  }

  void Add(access::Method method, grpc::internal::RpcMethod::RpcType type,
           const google::protobuf::Descriptor* request,
           const google::protobuf::Descriptor* response,
           grpc::internal::MethodHandler* handler);

  const Gate& gate_;
  UnreadAnswers unread_;
  std::map<std::string, std::shared_ptr<Service>> services_;  // by full name
};

}  // namespace mpsd::rpc
