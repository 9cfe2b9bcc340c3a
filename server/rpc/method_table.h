// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_METHOD_TABLE_H_
#define MPSD_SERVER_RPC_METHOD_TABLE_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/jobs.grpc.pb.h"  // and what generated code includes
#include "server/access/rules.h"
#include "server/rpc/access_calls.h"
#include "server/rpc/gate.h"
#include "server/rpc/streams.h"

namespace mpsd::rpc {

// The greatest request of a method that names no other, in bytes.
inline constexpr size_t kRequestBytes = 64 << 10;
// No bound but Options::max_receive_bytes.
inline constexpr size_t kAnyBytes = std::numeric_limits<size_t>::max();

// Runs `work` on a thread of the host and answers the call with the status, so
// that a handler is one line. `work` does not run if the gate refuses the call,
// or if the client is gone or the deadline has passed before its turn.
// UNAVAILABLE if the host has no room. Work of several steps checks between
// them whether the client still waits.
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const Gate& gate, CallHost& host, Asked asked,
                                 std::function<absl::Status(Call&)> work);

// The methods that mpsd serves, a row each. A row registers the method with
// gRPC as generated code does, but takes the request as bytes: a request over
// the row's bound is refused before it is parsed. The job and the words of the
// audit are read from the request (`id`, `job_id`, AuditDetail).
// The gate and the hosts must outlive the table, and the table the server.
class MethodTable {
 public:
  explicit MethodTable(const Gate& gate) : gate_(gate) {}
  MethodTable(const MethodTable&) = delete;
  MethodTable& operator=(const MethodTable&) = delete;

  // One request, one answer; `handle` runs on a thread of `host`. See Answer.
  template <typename Request, typename Response>
  void Unary(
      access::Method method, CallHost& host,
      std::function<absl::Status(Call&, const Request&, Response&)> handle,
      size_t most_bytes = kRequestBytes) {
    auto answer = [=, this, &host, handle = std::move(handle)](
                      grpc::CallbackServerContext* context,
                      const grpc::ByteBuffer* bytes, Response* response) {
      const Read<Request> read =
          ReadRequest<Request>(method, host.barrier(), *bytes, most_bytes);
      return Answer(context, gate_, host, AskedOf(method, *read.request),
                    [=](Call& call) {
                      if (!read.status.ok()) return read.status;
                      return handle(call, *read.request, *response);
                    });
    };
    Add(method, grpc::internal::RpcMethod::NORMAL_RPC, Request::descriptor(),
        Response::descriptor(),
        new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, Response>(
            std::move(answer)));
  }

  // One request, a stream of messages.
  template <typename Request, typename Message>
  void Sends(access::Method method, StreamHost& host,
             std::function<std::unique_ptr<Source<Message>>(
                 const access::Rights&, const Request&, Wake)>
                 make,
             size_t most_bytes = kRequestBytes) {
    auto start = [=, this, &host, make = std::move(make)](
                     grpc::CallbackServerContext* context,
                     const grpc::ByteBuffer* bytes) {
      const Read<Request> read =
          ReadRequest<Request>(method, host.barrier(), *bytes, most_bytes);
      return SourceStream<Message>::Start(
          *context, gate_, host, AskedOf(method, *read.request),
          [&](const access::Rights& rights, Wake wake) {
            auto source = std::make_unique<SourceOf<Request, Message>>();
            source->read = read;
            if (read.status.ok()) {
              source->made = make(rights, *read.request, std::move(wake));
            }
            return source;
          });
    };
    Add(method, grpc::internal::RpcMethod::SERVER_STREAMING,
        Request::descriptor(), Message::descriptor(),
        new grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer,
                                                           Message>(
            std::move(start)));
  }

  // A stream of messages, each of at most Options::max_receive_bytes, and one
  // answer.
  template <typename Message, typename Response>
  void Receives(access::Method method, StreamHost& host,
                std::function<std::unique_ptr<Sink<Message>>(
                    const access::Rights&, Response&)>
                    make) {
    auto start = [=, this, &host, make = std::move(make)](
                     grpc::CallbackServerContext* context, Response* response) {
      return SinkStream<Message>::Start(*context, gate_, host, {method},
                                        [&](const access::Rights& rights) {
                                          return make(rights, *response);
                                        });
    };
    Add(method, grpc::internal::RpcMethod::CLIENT_STREAMING,
        Message::descriptor(), Response::descriptor(),
        new grpc::internal::CallbackClientStreamingHandler<Message, Response>(
            std::move(start)));
  }

  // Registers the services of all rows. Each method of such a service has a
  // row.
  void Register(grpc::ServerBuilder& builder);

 private:
  // The methods of one service.
  class Service;

  template <typename Request>
  struct Read {
    absl::Status status;
    std::shared_ptr<const Request> request;  // empty where status is not OK
  };

  // Keeps the request as long as the source that was made of it; ends the
  // stream where the request cannot be read.
  template <typename Request, typename Message>
  struct SourceOf final : public Source<Message> {
    absl::StatusOr<Pull> Next(Message& message) override {
      if (!read.status.ok()) return read.status;
      return made->Next(message);
    }
    Read<Request> read;
    std::unique_ptr<Source<Message>> made;
  };

  template <typename Request>
  static Read<Request> ReadRequest(access::Method method,
                                   const Barrier& barrier,
                                   const grpc::ByteBuffer& bytes,
                                   size_t most_bytes) {
    static const auto* const kNothing =
        new std::shared_ptr<const Request>(std::make_shared<Request>());
    Read<Request> read{absl::OkStatus(), *kNothing};
    read.status = barrier.Run(method.rule().method, [&] {
      if (bytes.Length() > most_bytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("request: has ", bytes.Length(), " bytes, at most ",
                         most_bytes, " are allowed"));
      }
      auto request = std::make_shared<Request>();
      grpc::ByteBuffer shared(bytes);  // the parser takes the bytes it is given
      if (!grpc::SerializationTraits<Request>::Deserialize(&shared,
                                                           request.get())
               .ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "request: is not a ", Request::descriptor()->full_name()));
      }
      read.request = std::move(request);
      return absl::OkStatus();
    });
    return read;
  }

  template <typename Request>
  static Asked AskedOf(access::Method method, const Request& request) {
    Asked asked{method};
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
    return asked;
  }

  void Add(access::Method method, grpc::internal::RpcMethod::RpcType type,
           const google::protobuf::Descriptor* request,
           const google::protobuf::Descriptor* response,
           grpc::internal::MethodHandler* handler);

  const Gate& gate_;
  std::map<std::string, std::shared_ptr<Service>> services_;  // by full name
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_METHOD_TABLE_H_
