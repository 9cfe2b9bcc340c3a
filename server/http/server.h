// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_SERVER_H_
#define MPSD_SERVER_HTTP_SERVER_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "server/http/connection.h"
#include "server/http/door.h"
#include "server/http/message.h"
#include "server/http/tls.h"

namespace mpsd::http {

// Answers requests over HTTP/1.1 on one address. One thread serves every
// connection, so that clients that hang cost a descriptor each and nothing
// else; handlers run on threads of their own. Thread-safe.
class Server {
 public:
  struct Options {
    // "unix:/path" (mode 0600) or "HOST:PORT", with port 0 for a free port.
    std::string address;
    std::optional<TlsFiles> tls;
    // A file with the token that every request has to bear; empty: none.
    std::filesystem::path token_file;
    Deadlines deadlines = {};
    // A further connection takes the place of the one that has been idle for
    // longest; where none is idle, it is closed.
    size_t max_connections = limits::kHttpConnections;
    int handler_threads = 2;
    int body_threads = 4;  // for requests with bodies, and answers from files
    // The requests that run or wait for a thread; further ones get a 503.
    int max_waiting = 64;
    // The first descriptor number that no connection gets; see
    // listener::Listener.
    int max_descriptor = 1 << 30;
    // Called on any thread.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // Listens, so that clients can connect and wait. InvalidArgument for an
  // address that cannot work, Unavailable for one that is taken; the errors of
  // LoadTls and ReadTokenFile.
  static absl::StatusOr<std::unique_ptr<Server>> Open(Options options);
  // Answers from now on: by a handler, GET and HEAD alone; by a door, which has
  // to outlive the server, requests with bodies too. One of them is called,
  // once.
  void Serve(Handler handler);
  void Serve(Door& door);
  // Closes every connection and waits for the handlers that run.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Reads the certificate, its key and the token again. All stay as they were
  // where one cannot be read; the errors are those of Open. Connections keep
  // the certificate that they began with, requests need the new token at once.
  absl::Status Reload();

  // The address with the real port.
  const std::string& address() const;
  // When the certificate ends; nullopt without TLS.
  std::optional<absl::Time> certificate_expiry() const;

 private:
  class Core;
  explicit Server(std::unique_ptr<Core> core);

  const std::unique_ptr<Core> core_;
};

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_SERVER_H_
