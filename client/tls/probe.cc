// SPDX-License-Identifier: Apache-2.0
#include "client/tls/probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/printable.h"
#include "core/certificates/openssl.h"

namespace mpsd::client {
namespace {

using certificates::Freed;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;
using Addresses = std::unique_ptr<addrinfo, Freed<freeaddrinfo>>;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// OpenSSL writes to sockets by write(), which raises SIGPIPE where the peer has
// gone. While this object lives the thread gets none.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = IsPending();
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    int signal = 0;
    if (!was_pending_ && IsPending()) sigwait(&pipe_, &signal);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  static bool IsPending() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
  }
  sigset_t pipe_, before_;
  bool was_pending_;
};

// Whether the socket is ready before `deadline`.
bool Await(int fd, short events, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd one = {fd, events, 0};
    const int n =
        poll(&one, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// Connects to one address; 0 or the errno of what went wrong.
int ConnectTo(const addrinfo& address, absl::Time deadline, Socket* connected) {
  Socket socket(::socket(address.ai_family, address.ai_socktype, 0));
  if (socket.fd() < 0) return errno;
  fcntl(socket.fd(), F_SETFD, FD_CLOEXEC);
  fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!Await(socket.fd(), POLLOUT, deadline)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  *connected = std::move(socket);
  return 0;
}

// A connected socket; or none, and *probe says why.
Socket Connect(const HostPort& place, absl::Time deadline, Probe* probe) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown =
      getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found);
  const Addresses addresses(found);
  Socket socket(-1);
  if (unknown != 0) {
    probe->found = Found::kUnknownHost;
    probe->why = gai_strerror(unknown);
    return socket;
  }
  int left = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) ++left;
  int error = EHOSTUNREACH;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    // An address that swallows packets leaves time for the others.
    const absl::Time now = absl::Now();
    const absl::Time until = now + (deadline - now) / left--;
    error = ConnectTo(*one, until, &socket);
    if (error == 0) return socket;
  }
  probe->found = Found::kUnreachable;
  probe->why = std::strerror(error);
  return socket;
}

// OpenSSL's reason of the last error, which it forgets.
std::string Reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  std::string text =
      reason == nullptr ? "it closed the connection" : base::Printable(reason);
  ERR_clear_error();
  return text;
}

Context MakeContext() {
  Context context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  // The chain is judged by the caller, with better words.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof kHttp2);
  return context;
}

// Repeats an operation of OpenSSL until it ends; false once time is up.
template <typename Operation>
bool Finish(SSL* session, absl::Time deadline, int* result,
            Operation operation) {
  while (true) {
    ERR_clear_error();
    *result = operation();
    const int error = SSL_get_error(session, *result);
    short events = 0;
    if (error == SSL_ERROR_WANT_READ) events = POLLIN;
    if (error == SSL_ERROR_WANT_WRITE) events = POLLOUT;
    if (events == 0) return true;
    if (!Await(SSL_get_fd(session), events, deadline)) return false;
  }
}

void CopyChain(SSL* session, Probe* probe) {
  const STACK_OF(X509)* chain = SSL_get_peer_cert_chain(session);
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
    X509* one = sk_X509_value(chain, i);
    X509_up_ref(one);
    probe->chain.emplace_back(one);
  }
}

void ShakeHands(SSL* session, const HostPort& place, absl::Time deadline,
                Probe* probe) {
  if (!IsIpAddress(place.host)) {
    SSL_set_tlsext_host_name(session, place.host.c_str());
  }
  int result = 0;
  if (!Finish(session, deadline, &result,
              [&] { return SSL_connect(session); })) {
    probe->found = Found::kSilent;
    probe->why = "no answer to the TLS handshake";
    return;
  }
  if (result != 1) {
    probe->found = Found::kNoTls;
    probe->why = Reason();
    return;
  }
  probe->found = Found::kTls;
  CopyChain(session, probe);
}

}  // namespace

Probe ProbeServer(const HostPort& place, absl::Duration patience) {
  const NoBrokenPipe no_broken_pipe;
  const absl::Time deadline = absl::Now() + patience;
  Probe probe;
  const Socket socket = Connect(place, deadline, &probe);
  if (socket.fd() < 0) return probe;
  const Context context = MakeContext();
  const Session session(context == nullptr ? nullptr : SSL_new(context.get()));
  if (session == nullptr || SSL_set_fd(session.get(), socket.fd()) != 1) {
    probe.found = Found::kNoTls;
    probe.why = Reason();
    return probe;
  }
  ShakeHands(session.get(), place, deadline, &probe);
  return probe;
}

}  // namespace mpsd::client
