// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/trust.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/text.h"

namespace mpsd::client {
namespace {

constexpr size_t kMostAuthorityBytes = 8 << 20;

}  // namespace

absl::StatusOr<std::string> SystemRoots() {
  if (const char* file = std::getenv(X509_get_default_cert_file_env());
      file != nullptr && *file != 0) {
    return base::ReadSmallFile(file, kMostAuthorityBytes);
  }
  for (const char* file :
       {X509_get_default_cert_file(), "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}) {
    std::error_code error;
    if (std::filesystem::file_size(file, error) == 0 || error) continue;
    return base::ReadSmallFile(file, kMostAuthorityBytes);
  }
  return absl::NotFoundError(
      "this machine has no file of trusted certificates; install "
      "ca-certificates, or name one by SSL_CERT_FILE");
}

namespace {

constexpr size_t kLongestHost = 253;  // of DNS

bool IsAddress(int family, const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), bytes) == 1;
}

bool IsName(const std::string& host) {
  return !host.empty() && host.size() <= kLongestHost && host[0] != '-' &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
         });
}

}  // namespace

std::string HostPort::Text() const {
  return host.find(':') == std::string::npos
             ? absl::StrCat(host, ":", port)
             : absl::StrCat("[", host, "]:", port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("'", base::Quotable(text),
                   "' is not an address of mpsd: expected HOST:PORT, as in "
                   "studio.local:7433, or [IPV6]:PORT"));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  HostPort result{std::string(text.substr(0, colon)),
                  std::string(text.substr(colon + 1))};
  uint32_t port = 0;
  if (!std::all_of(result.port.begin(), result.port.end(),
                   absl::ascii_isdigit) ||
      !absl::SimpleAtoi(result.port, &port) || port == 0 || port > 65535) {
    return wrong;
  }
  result.port = absl::StrCat(port);
  std::string& host = result.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (!IsAddress(AF_INET6, host)) return wrong;
    return result;
  }
  if (!IsName(host)) return wrong;
  return result;
}

bool IsIpAddress(const std::string& host) {
  return IsAddress(AF_INET, host) || IsAddress(AF_INET6, host);
}

bool IsLoopback(std::string_view host) {
  const std::string name =
      absl::AsciiStrToLower(std::string(host.substr(0, kLongestHost)));
  if (name == "localhost") return true;
  in6_addr v6;
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return name.starts_with("127.") && IsAddress(AF_INET, name);
}

namespace {

using Store = std::unique_ptr<X509_STORE, certificates::Freed<X509_STORE_free>>;
using StoreContext =
    std::unique_ptr<X509_STORE_CTX, certificates::Freed<X509_STORE_CTX_free>>;

// Frees the stack, not the certificates.
struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};
using Stack = std::unique_ptr<STACK_OF(X509), FreeStack>;

Trust TrustOf(int error) {
  switch (error) {
    case X509_V_OK:
      return Trust::kTrusted;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Trust::kExpired;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Trust::kNotYetValid;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Trust::kWrongName;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
      return Trust::kOtherAuthority;
    default:
      return Trust::kBroken;
  }
}

void Name(X509_VERIFY_PARAM* parameters, const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  for (int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, host.c_str(), address) != 1) continue;
    X509_VERIFY_PARAM_set1_ip(
        parameters, address,
        family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr));
    return;
  }
  X509_VERIFY_PARAM_set1_host(parameters, host.c_str(), host.size());
  // As gRPC: the common name does not count if there are names.
  X509_VERIFY_PARAM_set_hostflags(parameters,
                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
}

}  // namespace

Verdict Judge(const Chain& chain, const std::vector<X509*>& roots,
              const std::string& host, absl::Time now) {
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  const Stack others(sk_X509_new_null());
  if (store == nullptr || context == nullptr || others == nullptr ||
      chain.empty()) {
    return {Trust::kBroken, "no certificate"};
  }
  for (X509* root : roots) X509_STORE_add_cert(store.get(), root);
  for (const certificates::Certificate& one : chain) {
    sk_X509_push(others.get(), one.get());
  }
  if (X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(),
                          others.get()) != 1) {
    return {Trust::kBroken, "it cannot be read"};
  }
  X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(
      parameters, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  X509_VERIFY_PARAM_set_time(parameters, absl::ToTimeT(now));
  X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_SERVER);
  Name(parameters, host);
  X509_verify_cert(context.get());
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  if (error == X509_V_OK) return {Trust::kTrusted};
  return {TrustOf(error), X509_verify_cert_error_string(error)};
}

Verdict Judge(const Chain& chain, const std::string& roots_pem,
              const std::string& host, absl::Time now) {
  const absl::StatusOr<Chain> roots =
      certificates::ParseCertificates(roots_pem);
  if (!roots.ok()) {
    return {Trust::kBroken, std::string(roots.status().message())};
  }
  std::vector<X509*> borrowed;
  for (const certificates::Certificate& root : *roots) {
    borrowed.push_back(root.get());
  }
  return Judge(chain, borrowed, host, now);
}

namespace {

using certificates::Freed;
using TlsContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;
using Addresses = std::unique_ptr<addrinfo, Freed<freeaddrinfo>>;

// OpenSSL writes to sockets with write(), which raises SIGPIPE if the peer has
// closed. While this object exists the thread gets none.
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

// Whether the socket is ready before `deadline`, a monotonic time.
bool Await(int fd, short events, absl::Duration deadline) {
  while (true) {
    const absl::Duration left = deadline - base::Clock::Real().Monotonic();
    if (left <= absl::ZeroDuration()) return false;
    pollfd one = {fd, events, 0};
    const int n =
        poll(&one, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// Connects to one address; returns 0 or the errno of the failure.
int ConnectTo(const addrinfo& address, absl::Duration deadline,
              base::UniqueFd* connected) {
  base::UniqueFd socket(::socket(address.ai_family, address.ai_socktype, 0));
  if (socket.get() < 0) return errno;
  fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!Await(socket.get(), POLLOUT, deadline)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  *connected = std::move(socket);
  return 0;
}

// A connected socket; or none, with the reason in *probe.
base::UniqueFd Connect(const HostPort& place, absl::Duration deadline,
                       Probe* probe) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown =
      getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found);
  const Addresses addresses(found);
  base::UniqueFd socket(-1);
  if (unknown != 0) {
    probe->found = Found::kUnknownHost;
    probe->why = gai_strerror(unknown);
    return socket;
  }
  int left = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) ++left;
  int error = EHOSTUNREACH;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    // An address that drops packets leaves time for the others.
    const absl::Duration now = base::Clock::Real().Monotonic();
    const absl::Duration until = now + (deadline - now) / left--;
    error = ConnectTo(*one, until, &socket);
    if (error == 0) return socket;
  }
  probe->found = Found::kUnreachable;
  probe->why = std::strerror(error);
  return socket;
}

// OpenSSL's reason of the last error, which it clears.
std::string Reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  std::string text =
      reason == nullptr ? "it closed the connection" : base::Printable(reason);
  ERR_clear_error();
  return text;
}

TlsContext MakeTlsContext() {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  // The caller verifies the chain, with better messages.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof kHttp2);
  return context;
}

// Repeats an OpenSSL operation until it ends; false once time is up.
template <typename Operation>
bool Finish(SSL* session, absl::Duration deadline, int* result,
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

void ShakeHands(SSL* session, const HostPort& place, absl::Duration deadline,
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
  const absl::Duration deadline = base::Clock::Real().Monotonic() + patience;
  Probe probe;
  const base::UniqueFd socket = Connect(place, deadline, &probe);
  if (socket.get() < 0) return probe;
  const TlsContext context = MakeTlsContext();
  const Session session(context == nullptr ? nullptr : SSL_new(context.get()));
  if (session == nullptr || SSL_set_fd(session.get(), socket.get()) != 1) {
    probe.found = Found::kNoTls;
    probe.why = Reason();
    return probe;
  }
  ShakeHands(session.get(), place, deadline, &probe);
  return probe;
}

}  // namespace mpsd::client
