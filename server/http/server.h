// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "server/rpc/pki.h"

namespace mpsd::http {

// The bearer token in a file: one line of limits::kLeastTokenBytes to
// limits::kTokenBytes, of the characters that RFC 6750 allows. InvalidArgument
// for other content, without quoting it; else the errors of ReadSecretFile.
absl::StatusOr<std::string> ReadTokenFile(const std::filesystem::path& path);

// Whether the header Authorization is "Bearer TOKEN". Takes the same time for
// every wrong token of the same length.
bool HasToken(std::string_view authorization, std::string_view token);

// The header of a GET or a HEAD, which is answered as a GET without the body.
// An absent line is empty.
struct Request {
  std::string target = "";  // path and query, as the client sent them
  std::string host = "";
  std::string authorization = "";
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";
  // In addition to those that every response has (server.cc).
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Answers a request; called concurrently on several threads. The client gets a
// 500 if it throws.
using Handler = std::function<Response(const Request&)>;

// A client's time limits. Each applies to the whole of its step, however often
// a byte is transferred.
struct Deadlines {
  absl::Duration request = absl::Seconds(10);  // the first: with the handshake
  absl::Duration response = absl::Seconds(30);
  absl::Duration idle = absl::Minutes(5);  // between two requests
};

// Answers GET and HEAD over HTTP/1.1 on one address: requests without bodies,
// each within limits::kHttpHeaderBytes, over TLS 1.3 if there is a certificate.
// Each connection has a thread, so the bound on connections is the bound on
// threads. The process must ignore SIGPIPE. Thread-safe.
//
// It is our own because no available library keeps these bounds. cpp-httplib
// 0.11.4 (Debian 12) accepts header lines without end (160 MB of them took 230
// MB of memory), lets a request trickle forever, and answers a Range of 1,500
// parts with the body 1,500 times; prometheus-cpp's exposer is Debian's
// CivetWeb, which has neither TLS nor unix sockets.
class Server {
 public:
  struct Options {
    // "unix:/path" (mode 0600) or "HOST:PORT", with port 0 for a free port.
    std::string address;
    std::optional<tls::ServerFiles> tls;
    // A file with the token that every request must carry; empty: none.
    std::filesystem::path token_file = {};
    Deadlines deadlines = {};
    // A further connection replaces the one whose client has been waited for
    // longest: for a request, or to read its response. It is closed if every
    // request is being answered.
    size_t max_connections = limits::kHttpConnections;
    // Likewise of one IPv4 address, or of the /64 network of an IPv6 address; a
    // link's neighbours share theirs and count by address. A unix socket's
    // clients only count as connections.
    size_t max_of_client = limits::kHttpConnections / 2;
    int handlers = 2;  // that run at a time
    // The requests that run or wait for a handler; further ones get a 503.
    int max_waiting = 64;
    // The first descriptor number that no connection gets; see
    // listener::Listener.
    int max_descriptor = 1 << 30;
    // Called on any thread.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // Listens, so that clients can connect and wait. InvalidArgument for an
  // unusable address, Unavailable for one that is taken; the errors of
  // tls::ReadServerPem and ReadTokenFile.
  static absl::StatusOr<std::unique_ptr<Server>> Open(Options options);
  // Starts answering. Called once.
  void Serve(Handler handler);
  // Closes every connection and waits for the running handlers.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Reloads the certificate, its key and the token. If one cannot be read, all
  // stay unchanged; the errors are those of Open. Connections keep their
  // certificate; requests need the new token at once.
  absl::Status Reload();

  // The address with the real port.
  const std::string& address() const;
  // When the certificate expires; nullopt without TLS.
  std::optional<absl::Time> certificate_expiry() const;

 private:
  class Core;
  explicit Server(std::unique_ptr<Core> core);

  const std::unique_ptr<Core> core_;
};

}  // namespace mpsd::http
