// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/access/token_book.h"
#include "server/rpc/gate.h"
#include "server/rpc/listener.h"

namespace mpsd::rpc {

// The method that a caller without a token may call.
inline constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

// The ways by which connections reach gRPC, each with a processor that gRPC
// calls before a call's messages are read. A unix socket has an entrance for
// each account, which belongs to the first account that takes it as long as the
// daemon runs: gRPC passes the entrance to a processor, but not the connection.
// Ports share an entrance, which refuses calls of unknown callers, except the
// standard health check. Thread-safe.
class Entrances {
 public:
  struct Options {
    KnownCallers known;
    // The maximum number of this machine's accounts that may connect while the
    // daemon runs, in addition to its own.
    int accounts = 64;
    // How connections to ports are encrypted; null: no port is served.
    std::shared_ptr<grpc::ServerCredentials> port;
    // The user of an account; may block for as long as a name service does.
    std::function<absl::StatusOr<std::string>(uid_t)> name =
        access::AccountName;
    // Called on any thread, and must not block: a line for the log; and a call
    // that was refused, by its path ("/mpsd.v1.JobService/Submit").
    std::function<void(const std::string&)> log = [](const std::string&) {};
    std::function<void(std::string_view path, const absl::Status&)> refused =
        [](std::string_view, const absl::Status&) {};
  };

  // Adds the entrances to the server being built. Unavailable if the name of
  // the daemon's own account cannot be found.
  static absl::StatusOr<std::unique_ptr<Entrances>> Open(
      Options options, grpc::ServerBuilder& builder);
  ~Entrances();  // calls Close()
  Entrances(const Entrances&) = delete;
  Entrances& operator=(const Entrances&) = delete;

  // Passes a connection to gRPC, and owns its descriptor. Does not wait: an
  // unknown account's name is looked up on another thread, since a name service
  // may hang. Call it after the server's start.
  void Take(const listener::Accepted& accepted);
  // Closes every later connection. Call it before the server's end: gRPC would
  // not close it.
  void Close();

 private:
  class Core;
  explicit Entrances(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  // Shared with the threads that look up names.
  const std::shared_ptr<Core> core_;
};

}  // namespace mpsd::rpc
