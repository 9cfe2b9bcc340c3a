// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_ENTRANCES_H_
#define MPSD_SERVER_RPC_ENTRANCES_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/access/token_book.h"
#include "server/listener/listener.h"
#include "server/rpc/identify.h"

namespace mpsd::rpc {

// The ways by which connections come to gRPC, each with a processor that gRPC
// asks before a call's messages are read. A unix socket has an entrance for
// each account, which belongs to the first account that takes it as long as the
// daemon runs: gRPC tells a processor the entrance, but not the connection.
// Ports share an entrance, which refuses calls of unknown callers; of these it
// lets the standard health check pass alone. Thread-safe.
class Entrances {
 public:
  struct Options {
    KnownCallers known;
    // The accounts of this machine that may come while the daemon runs, beside
    // its own.
    int accounts = 64;
    // How connections by ports are encrypted; null: no port is served.
    std::shared_ptr<grpc::ServerCredentials> port;
    // The user that an account is; may block for as long as a name service
    // does.
    std::function<absl::StatusOr<std::string>(uid_t)> name =
        access::AccountName;
    // Called on any thread, and must not block: a line for people; and a call
    // that was refused, by its path ("/mpsd.v1.JobService/Submit").
    std::function<void(const std::string&)> log = [](const std::string&) {};
    std::function<void(std::string_view path, const absl::Status&)> refused =
        [](std::string_view, const absl::Status&) {};
  };

  // Adds the entrances to the server that is being built. Unavailable where the
  // name of the daemon's own account cannot be found.
  static absl::StatusOr<std::unique_ptr<Entrances>> Open(
      Options options, grpc::ServerBuilder& builder);
  ~Entrances();  // calls Close()
  Entrances(const Entrances&) = delete;
  Entrances& operator=(const Entrances&) = delete;

  // Hands a connection to gRPC, and owns its descriptor. Does not wait: an
  // account whose name is not known yet is looked up on a thread of its own,
  // since a name service may hang. Call it after the server's start.
  void Take(const listener::Accepted& accepted);
  // Closes every connection that comes later. Call it before the server's end:
  // gRPC would not close it.
  void Close();

 private:
  class Core;
  explicit Entrances(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  // Shared with the threads that look up names.
  const std::shared_ptr<Core> core_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_ENTRANCES_H_
