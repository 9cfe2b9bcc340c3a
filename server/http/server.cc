// SPDX-License-Identifier: Apache-2.0
#include "server/http/server.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>
#include <system_error>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "server/rpc/listener.h"

namespace mpsd::http {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(c) ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::string> ReadTokenFile(const std::filesystem::path& path) {
  // The line may end in "\r\n".
  ASSIGN_OR_RETURN(std::string text,
                   base::ReadSecretFile(path, limits::kTokenBytes + 2));
  std::string token(absl::StripTrailingAsciiWhitespace(text));
  if (token.size() < limits::kLeastTokenBytes ||
      token.size() > limits::kTokenBytes ||
      !std::all_of(token.begin(), token.end(), IsTokenCharacter)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": expected a token of ", limits::kLeastTokenBytes,
        " to ", limits::kTokenBytes,
        " letters, digits and -._~+/= on one line; make one with: openssl "
        "rand -hex 32"));
  }
  return token;
}

bool HasToken(std::string_view authorization, std::string_view token) {
  const std::string scheme(authorization.substr(0, kScheme.size()));
  if (!absl::EqualsIgnoreCase(scheme, kScheme)) return false;
  // Digests have one length, so that neither the time nor the amount of memory
  // compared reveals the token's length.
  const std::string given =
      base::Sha256Hex(authorization.substr(kScheme.size()));
  const std::string wanted = base::Sha256Hex(token);
  return CRYPTO_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

namespace {

constexpr size_t kPieceBytes = 4096;
// How long closing a connection waits for the client to have read everything.
constexpr absl::Duration kLinger = absl::Seconds(1);

absl::Duration Now() { return base::Clock::Real().Monotonic(); }

using Context = std::shared_ptr<SSL_CTX>;

struct Tls {
  Context context;  // TLS 1.3 only
  absl::Time expiry;
};

// The certificate and token; replaced as a whole.
struct Credentials {
  std::optional<Tls> tls;
  std::string token;  // empty: none is needed
};

absl::StatusOr<Tls> LoadTls(const tls::ServerFiles& files) {
  ASSIGN_OR_RETURN(const tls::ServerPem pem, tls::ReadServerPem(files));
  const Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
  // They were valid a moment ago; a renewal may be in progress.
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context.get(),
                                         files.certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(),
                                  SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.certificate.string(),
                     ": it and its key changed while they were read"));
  }
  return Tls{context, pem.expiry};
}

absl::StatusOr<Credentials> Load(const Server::Options& options) {
  Credentials credentials;
  if (options.tls) {
    ASSIGN_OR_RETURN(Tls tls, LoadTls(*options.tls));
    credentials.tls = std::move(tls);
    if (credentials.tls->expiry < absl::Now()) {
      options.log(absl::StrCat(options.tls->certificate.string(),
                               ": the certificate ended on ",
                               absl::FormatTime("%F", credentials.tls->expiry,
                                                absl::UTCTimeZone())));
    }
  }
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(std::string token, ReadTokenFile(options.token_file));
    credentials.token = std::move(token);
  }
  return credentials;
}

// A connected, non-blocking socket, plain or with TLS. Each call has a deadline
// (by Now()) for the whole call.
class Stream {
 public:
  // Borrows `fd`. `context` is null for plain HTTP.
  Stream(int fd, Context context)
      : fd_(fd),
        context_(std::move(context)),
        ssl_(context_ ? SSL_new(context_.get()) : nullptr, SSL_free) {
    if (ssl_) SSL_set_fd(ssl_.get(), fd_);
  }

  bool Handshake(absl::Duration deadline) {
    return !context_ ||
           (ssl_ && Try([&] { return SSL_accept(ssl_.get()); }, 0, deadline));
  }

  // Appends received bytes. False if the client or the time has ended.
  bool Read(std::string& text, absl::Duration deadline) {
    char piece[kPieceBytes];
    const int64_t bytes = Try(
        [&]() -> int64_t {
          return ssl_ ? SSL_read(ssl_.get(), piece, sizeof piece)
                      : recv(fd_, piece, sizeof piece, 0);
        },
        POLLIN, deadline);
    text.append(piece, bytes);
    return bytes > 0;
  }

  bool Write(const std::string& text, absl::Duration deadline) {
    for (size_t sent = 0; sent < text.size();) {
      const size_t most = std::min<size_t>(text.size() - sent, 1 << 20);
      const int64_t bytes = Try(
          [&]() -> int64_t {
            return ssl_ ? SSL_write(ssl_.get(), text.data() + sent,
                                    static_cast<int>(most))
                        : send(fd_, text.data() + sent, most, 0);
          },
          POLLOUT, deadline);
      if (bytes == 0) return false;
      sent += bytes;
    }
    return true;
  }

  // Ends the stream. Closing a socket with unread bytes resets the connection,
  // and the client may never see the last response.
  void End() {
    const absl::Duration deadline = Now() + kLinger;
    if (ssl_) SSL_shutdown(ssl_.get());
    ssl_.reset();
    shutdown(fd_, SHUT_WR);
    for (std::string unread; Read(unread, deadline); unread.clear()) {
    }
  }

 private:
  // Repeats `step`, which returns as recv does, until it need not wait. Returns
  // 0 at the end, after an error and at the deadline.
  template <typename Step>
  int64_t Try(const Step& step, int16_t events, absl::Duration deadline) {
    while (true) {
      ERR_clear_error();
      const int64_t result = step();
      if (result > 0) return result;
      if (ssl_) {
        const int why = SSL_get_error(ssl_.get(), static_cast<int>(result));
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return 0;
        events = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      } else if (result == 0 || (errno != EAGAIN && errno != EINTR)) {
        return 0;
      }
      if (!Await(events, deadline)) return 0;
    }
  }

  bool Await(int16_t events, absl::Duration deadline) {
    while (true) {
      const absl::Duration left =
          std::min(deadline - Now(), absl::Hours(1)) + absl::Milliseconds(1);
      if (left <= absl::ZeroDuration()) return false;
      pollfd wanted{fd_, events, 0};
      const int ready =
          poll(&wanted, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
      if (Now() >= deadline) return false;
    }
  }

  const int fd_;
  const Context context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

// A request's header, or why it is refused.
struct Parsed {
  Request request;
  bool is_head = false;
  bool is_old = false;  // HTTP/1.0
  bool keep = true;     // the connection stays open after the response
  std::optional<Response> refusal;
};

Parsed Refused(int status, const char* why,
               std::vector<std::pair<std::string, std::string>> headers = {}) {
  Parsed parsed;
  parsed.keep = false;
  parsed.refusal =
      Response{.status = status, .body = why, .headers = std::move(headers)};
  return parsed;
}

bool HasControl(const std::string& line) {
  return std::any_of(line.begin(), line.end(), [](char c) {
    return absl::ascii_iscntrl(c) && c != '\t';
  });
}

// The lines of a header by their names in lower case. nullopt for an invalid
// one; a name that affects the target or the authorization may occur once.
std::optional<std::map<std::string, std::string>> ParseLines(
    const std::vector<std::string>& lines) {
  std::map<std::string, std::string> fields;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const size_t colon = line.find(':');
    if (colon == line.npos || colon == 0 || HasControl(line) ||
        line.find_first_of(" \t") < colon) {
      return std::nullopt;
    }
    const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
    const std::string value(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    if (!fields.emplace(name, value).second &&
        (name == "host" || name == "authorization" ||
         name == "content-length" || name == "transfer-encoding")) {
      return std::nullopt;
    }
  }
  return fields;
}

// `header` ends before the empty line.
Parsed Parse(const std::string& header) {
  constexpr char kNoRequest[] = "this is not an HTTP request\n";
  const std::vector<std::string> lines = absl::StrSplit(header, "\r\n");
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  if (first.size() != 3 || first[0].empty() || first[1].empty() ||
      (first[2] != "HTTP/1.1" && first[2] != "HTTP/1.0") ||
      HasControl(lines[0])) {
    return Refused(400, kNoRequest);
  }
  auto fields = ParseLines(lines);
  if (!fields) return Refused(400, kNoRequest);
  if (first[0] != "GET" && first[0] != "HEAD") {
    return Refused(405, "only GET and HEAD are answered\n",
                   {{"Allow", "GET, HEAD"}});
  }
  if (fields->contains("transfer-encoding") ||
      (fields->contains("content-length") &&
       (*fields)["content-length"] != "0")) {
    return Refused(400, "a request must not have a body\n");
  }
  Parsed parsed;
  parsed.is_head = first[0] == "HEAD";
  parsed.is_old = first[2] == "HTTP/1.0";
  const std::string connection = absl::AsciiStrToLower((*fields)["connection"]);
  parsed.keep = parsed.is_old ? connection == "keep-alive"
                              : !absl::StrContains(connection, "close");
  parsed.request = {first[1], (*fields)["host"], (*fields)["authorization"]};
  return parsed;
}

// Whether the received part of a header exceeds the bounds: of the request
// line, or of all the other lines together.
bool IsTooLong(const std::string& text) {
  const size_t line = text.find("\r\n");
  if (std::min(line, text.size()) > limits::kHttpHeaderBytes) return true;
  if (line == text.npos) return false;
  const size_t end = text.find("\r\n\r\n");
  return (end == text.npos ? text.size() : end + 4) - (line + 2) >
         limits::kHttpHeaderBytes;
}

const char* ReasonOf(int status) {
  static const std::map<int, const char*> reasons = {
      {200, "OK"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {503, "Service Unavailable"}};
  const auto found = reasons.find(status);
  return found == reasons.end() ? "Error" : found->second;
}

std::string Serialize(const Response& response, const Parsed& asked) {
  std::string text = absl::StrCat(
      asked.is_old ? "HTTP/1.0 " : "HTTP/1.1 ", response.status, " ",
      ReasonOf(response.status), "\r\nContent-Type: ", response.content_type,
      "\r\nContent-Length: ", response.body.size(),
      "\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store"
      "\r\nConnection: ",
      asked.keep ? "keep-alive" : "close", "\r\n");
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  }
  absl::StrAppend(&text, "\r\n", asked.is_head ? "" : response.body);
  return text;
}

}  // namespace

class Server::Core {
 public:
  Core(Options options, Credentials credentials)
      : options_(std::move(options)), credentials_(std::move(credentials)) {}

  absl::Status Listen() {
    ASSIGN_OR_RETURN(
        std::unique_ptr<listener::Listener> opened,
        listener::Listener::Open(
            {{options_.address}, options_.max_descriptor, options_.log}));
    listener_ = std::move(opened);
    return absl::OkStatus();
  }

  void Serve(Handler handler) {
    base::Check(handler_ == nullptr, "Serve is called once");
    handler_ = std::move(handler);
    listener_->Start(
        [this](const listener::Accepted& accepted) { Take(accepted.fd); });
  }

  ~Core() {
    if (listener_) listener_->Stop();
    {
      absl::MutexLock lock(&mutex_);
      for (Connection& connection : connections_) Cut(connection);
    }
    // No connection is added any more.
    for (Connection& connection : connections_) connection.thread.join();
  }

  absl::Status Reload() {
    ASSIGN_OR_RETURN(Credentials credentials, Load(options_));
    absl::MutexLock lock(&mutex_);
    credentials_ = std::move(credentials);
    return absl::OkStatus();
  }

  Credentials credentials() const {
    absl::MutexLock lock(&mutex_);
    return credentials_;
  }
  const std::string& address() const { return listener_->addresses().front(); }

 private:
  struct Connection {
    int fd = -1;
    std::string client;
    // Since when the server waits for the client; nullopt while it answers.
    std::optional<absl::Duration> waits_since;
    bool is_cut = false;  // ends, and is not counted any more
    bool is_done = false;
    std::thread thread;
  };

  // Owns `fd`.
  void Take(int fd) {
    absl::MutexLock lock(&mutex_);
    std::erase_if(connections_, [](Connection& connection) {
      if (connection.is_done) connection.thread.join();
      return connection.is_done;
    });
    const std::string client = listener::NetworkOf(fd);
    if ((!client.empty() && !MakeRoom(options_.max_of_client, client)) ||
        !MakeRoom(options_.max_connections, "")) {
      close(fd);
      return;
    }
    Connection& connection = connections_.emplace_back();
    connection.fd = fd;
    connection.client = client;
    connection.waits_since = Now();
    try {
      connection.thread = std::thread([this, &connection] { Run(connection); });
    } catch (const std::system_error& error) {
      options_.log(absl::StrCat(options_.address, ": ", error.what()));
      close(fd);
      connections_.pop_back();
    }
  }

  // Whether there are fewer than `most` connections of the client, of any if
  // `client` is empty; may close the one that is needed least for it.
  bool MakeRoom(size_t most, const std::string& client)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t count = 0;
    Connection* oldest = nullptr;
    for (Connection& connection : connections_) {
      const bool counts = client.empty() || connection.client == client;
      if (!counts || connection.is_cut || connection.is_done) continue;
      ++count;
      if (connection.waits_since &&
          (oldest == nullptr ||
           *connection.waits_since < *oldest->waits_since)) {
        oldest = &connection;
      }
    }
    if (count < most) return true;
    if (oldest != nullptr) Cut(*oldest);
    return oldest != nullptr;
  }

  // Ends the waits of the connection's thread.
  void Cut(Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (connection.is_done || connection.is_cut) return;
    shutdown(connection.fd, SHUT_RDWR);
    connection.is_cut = true;
  }

  void Run(Connection& connection) {
    {
      const std::optional<Tls> tls = credentials().tls;
      Stream stream(connection.fd, tls ? tls->context : nullptr);
      if (Converse(connection, stream)) stream.End();
    }
    absl::MutexLock lock(&mutex_);
    close(connection.fd);
    connection.is_done = true;
  }

  // Whether the client can read the last response.
  bool Converse(Connection& connection, Stream& stream) {
    const Deadlines& deadlines = options_.deadlines;
    absl::Duration deadline = Now() + deadlines.request;
    if (!stream.Handshake(deadline)) return false;
    std::string text;
    while (true) {
      while (text.find("\r\n\r\n") == text.npos && !IsTooLong(text)) {
        if (!stream.Read(text, deadline)) return false;
      }
      Parsed asked = IsTooLong(text)
                         ? Refused(431, "the request's header is too long\n")
                         : Parse(text.substr(0, text.find("\r\n\r\n")));
      SetWaitsSince(connection, std::nullopt);
      const Response response =
          asked.refusal ? *asked.refusal : Answer(asked.request);
      SetWaitsSince(connection, Now());
      // A stranger keeps no connection.
      if (response.status == 401) asked.keep = false;
      if (!stream.Write(Serialize(response, asked),
                        Now() + deadlines.response)) {
        return false;
      }
      if (!asked.keep) return true;
      text.erase(0, text.find("\r\n\r\n") + 4);
      if (text.empty() && !stream.Read(text, Now() + deadlines.idle)) {
        return false;
      }
      deadline = Now() + deadlines.request;
    }
  }

  void SetWaitsSince(Connection& connection,
                     std::optional<absl::Duration> since) {
    absl::MutexLock lock(&mutex_);
    connection.waits_since = since;
  }

  Response Answer(const Request& request) {
    const std::string token = credentials().token;
    if (!token.empty() && !HasToken(request.authorization, token)) {
      return {.status = 401,
              .body = "a bearer token is needed\n",
              .headers = {{"WWW-Authenticate", "Bearer"}}};
    }
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_ >= options_.max_waiting) {
        return {.status = 503,
                .body = "too many requests are waiting\n",
                .headers = {{"Retry-After", "1"}}};
      }
      ++waiting_;
      mutex_.Await(absl::Condition(this, &Core::MayRun));
      ++running_;
    }
    Response response = Handled(request);
    absl::MutexLock lock(&mutex_);
    --running_;
    --waiting_;
    return response;
  }

  bool MayRun() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return running_ < options_.handlers;
  }

  // The handler's response; an exception ends only the one request.
  Response Handled(const Request& request) {
    try {
      return handler_(request);
    } catch (...) {
      // The exception's text may quote a user's data.
      options_.log(absl::StrCat(options_.address,
                                ": an exception in the answer to ",
                                base::Quotable(request.target)));
      return {.status = 500, .body = "internal error; mpsd's log has more\n"};
    }
  }

  const Options options_;
  Handler handler_;
  std::unique_ptr<listener::Listener> listener_;
  mutable absl::Mutex mutex_;
  Credentials credentials_ ABSL_GUARDED_BY(mutex_);
  // Only Take and the destructor add or remove one; a thread uses its own.
  std::list<Connection> connections_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Open(Options options) {
  RETURN_IF_ERROR(listener::CheckListenAddress(options.address));
  ASSIGN_OR_RETURN(Credentials credentials, Load(options));
  auto core =
      std::make_unique<Core>(std::move(options), std::move(credentials));
  RETURN_IF_ERROR(core->Listen());
  return std::unique_ptr<Server>(new Server(std::move(core)));
}

Server::Server(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Server::~Server() = default;

void Server::Serve(Handler handler) { core_->Serve(std::move(handler)); }

absl::Status Server::Reload() { return core_->Reload(); }

const std::string& Server::address() const { return core_->address(); }

std::optional<absl::Time> Server::certificate_expiry() const {
  const std::optional<Tls> tls = core_->credentials().tls;
  if (!tls) return std::nullopt;
  return tls->expiry;
}

}  // namespace mpsd::http
