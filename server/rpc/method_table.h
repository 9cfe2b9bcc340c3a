// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
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

// Receives the call's request, runs `work` on a thread of the host, in the turn
// of the call's user, and answers the call with the status, so that a handler
// is one line. Before that the thread reads the request. `work` does not run if
// the request cannot be read, if the gate refuses the call, or if the client is
// gone or the deadline has passed before its turn. UNAVAILABLE if the host has
// no room. Work of several steps checks between them whether the client still
// waits.
OneRequest* Answer(grpc::CallbackServerContext* context, const Gate& gate,
                   CallHost& host, access::Method method, MakeAsk ask,
                   std::function<absl::Status(Call&)> work);

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
                      Response* response) {
      const auto request = std::make_shared<Request>();
      return Answer(
          context, gate_, host, method, AskFor(most_bytes, request),
          [=](Call& call) { return handle(call, *request, *response); });
    };
    Add(method, grpc::internal::RpcMethod::BIDI_STREAMING,
        Request::descriptor(), Response::descriptor(),
        new grpc::internal::CallbackClientStreamingHandler<grpc::ByteBuffer,
                                                           Response>(
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
  std::map<std::string, std::shared_ptr<Service>> services_;  // by full name
};

}  // namespace mpsd::rpc
