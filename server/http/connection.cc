// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "server/http/peer_address.h"

namespace mpsd::http {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Error = boost::system::error_code;
// TCP and unix sockets alike.
using Protocol = net::generic::stream_protocol;
using Plain = beast::basic_stream<Protocol>;
using Secure = net::ssl::stream<Plain>;

constexpr size_t kPieceBytes = 4096;
// What is in memory of one body, a request's or an answer's.
constexpr size_t kBodyPieceBytes = 256 << 10;
// More than this of a header, or of what stands between two chunks of a body,
// is never in memory.
constexpr size_t kBufferBytes = 128 << 10;
// How long the last answer's end waits for the client to have read it.
constexpr absl::Duration kLinger = absl::Seconds(1);

template <typename StringView>
std::string Text(const StringView& text) {
  return {text.data(), text.size()};
}

using Parser = http::request_parser<http::buffer_body>;

Response InternalError() {
  return {.status = 500, .body = "internal error; mpsd's log has more\n"};
}

// Why nobody could say for sure where such a request ends or who sends it;
// null for a request that is clear.
const char* Ambiguity(const Parser& parser) {
  const auto& request = parser.get();
  for (const http::field field :
       {http::field::host, http::field::authorization,
        http::field::content_length, http::field::content_type,
        http::field::transfer_encoding}) {
    if (request.count(field) > 1) return "a header's line comes twice\n";
  }
  const std::string length = Text(request[http::field::content_length]);
  if (length.find_first_not_of("0123456789") != std::string::npos) {
    return "Content-Length: expected one number\n";
  }
  if (request.count(http::field::transfer_encoding) == 0) return nullptr;
  if (request.version() < 11 ||
      request.count(http::field::content_length) > 0 ||
      !absl::EqualsIgnoreCase(Text(request[http::field::transfer_encoding]),
                              "chunked")) {
    return "Transfer-Encoding: expected \"chunked\" without a Content-Length\n";
  }
  return nullptr;
}

std::optional<int64_t> AnnouncedBytes(const Parser& parser) {
  const auto bytes = parser.content_length();
  if (!bytes) return std::nullopt;
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min<uint64_t>(*bytes, kMost));
}

template <typename Stream>
class StreamConnection final : public Connection {
 public:
  static constexpr bool kSecure = std::is_same_v<Stream, Secure>;

  template <typename... Tls>
  StreamConnection(Plain socket, std::shared_ptr<net::ssl::context> context,
                   std::string peer, const Deadlines& deadlines, Calls calls,
                   Tls&... tls)
      : context_(std::move(context)),
        stream_(std::move(socket), tls...),
        peer_(std::move(peer)),
        deadlines_(deadlines),
        calls_(std::move(calls)) {}

  void Start() override {
    if constexpr (kSecure) {
      Allow(deadlines_.handshake);
      stream_.async_handshake(net::ssl::stream_base::server,
                              Then([this](Error error) {
                                if (error) return Close();
                                ReadHeader();
                              }));
    } else {
      ReadHeader();
    }
  }

  void Close() override {
    if (std::exchange(closed_, true)) return;
    Error ignored;
    Lowest().socket().close(ignored);
    DropBody();
    calls_.closed(this);
  }

 private:
  Plain& Lowest() { return beast::get_lowest_layer(stream_); }
  void Allow(absl::Duration time) {
    Lowest().expires_after(absl::ToChronoNanoseconds(time));
  }

  // `next` as a handler that keeps the connection alive.
  template <typename Next>
  auto Then(Next next) {
    return [self = shared_from_this(), next = std::move(next)](
               Error error, size_t = 0) mutable { next(error); };
  }

  void AwaitRequest() {
    if (buffer_.size() > 0) return ReadHeader();
    idle_since_ = absl::Now();
    Allow(deadlines_.idle);
    stream_.async_read_some(
        buffer_.prepare(kPieceBytes),
        [this, self = shared_from_this()](Error error, size_t bytes) {
          idle_since_.reset();
          if (error) return End();
          buffer_.commit(bytes);
          ReadHeader();
        });
  }

  void ReadHeader() {
    is_head_ = false;
    parser_.emplace();
    parser_->header_limit(limits::kHttpHeaderBytes);
    // The bodies know their own bounds. (Boost 1.74 takes boost::none for 0.)
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    Allow(deadlines_.request);
    http::async_read_header(stream_, buffer_, *parser_,
                            Then([this](Error error) { OnHeader(error); }));
  }

  void OnHeader(Error error) {
    if (error == http::error::end_of_stream) return End();
    if (error == http::error::header_limit ||
        error == http::error::buffer_overflow) {
      return Refuse(431, "the request's header is too long\n");
    }
    const Error bad_method = make_error_code(http::error::bad_method);
    if (error && error.category() != bad_method.category()) return Close();
    if (error) return Refuse(400, "this is no HTTP request\n");
    const auto& request = parser_->get();
    is_head_ = request.method() == http::verb::head;
    if (!IsAnswered(request.method())) return RefuseMethod();
    if (const char* why = Ambiguity(*parser_)) return Refuse(400, why);
    if (!calls_.run && !parser_->is_done()) {
      return Refuse(400, "a request has no body here\n");
    }
    Lowest().expires_never();  // until the handler has answered
    calls_.answer(Described(), [this, self = shared_from_this()](Begun begun) {
      Begin(std::move(begun));
    });
  }

  bool IsAnswered(http::verb method) const {
    if (method == http::verb::get || method == http::verb::head) return true;
    return calls_.run &&
           (method == http::verb::post || method == http::verb::delete_);
  }

  void RefuseMethod() {
    if (calls_.run) {
      return Refuse(405, "only GET, HEAD, POST and DELETE are answered\n",
                    {{"Allow", "GET, HEAD, POST, DELETE"}});
    }
    Refuse(405, "only GET and HEAD are answered\n", {{"Allow", "GET, HEAD"}});
  }

  Request Described() const {
    const auto& request = parser_->get();
    Request described;
    described.target = Text(request.target());
    described.host = Text(request[http::field::host]);
    described.authorization = Text(request[http::field::authorization]);
    described.accept = Text(request[http::field::accept]);
    described.accept_encoding = Text(request[http::field::accept_encoding]);
    if (!is_head_) described.method = Text(request.method_string());
    described.content_type = Text(request[http::field::content_type]);
    described.idempotency_key = Text(request["Idempotency-Key"]);
    described.retry_count = Text(request["X-Stainless-Retry-Count"]);
    described.has_body = !parser_->is_done();
    described.content_length = AnnouncedBytes(*parser_);
    described.peer = peer_;
    return described;
  }

  void Begin(Begun begun) {
    if (closed_) return;
    if (auto* response = std::get_if<Response>(&begun)) {
      return Answer(*std::move(response));
    }
    body_ = std::get<std::shared_ptr<Body>>(std::move(begun));
    const auto expect = parser_->get()[http::field::expect];
    if (!absl::EqualsIgnoreCase(Text(expect), "100-continue")) {
      return ReadPiece();
    }
    Allow(deadlines_.response);
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    net::async_write(stream_, net::buffer(kContinue), Then([this](Error error) {
                       error ? Close() : ReadPiece();
                     }));
  }

  void ReadPiece() {
    if (parser_->is_done()) return TakePiece(0);
    piece_.resize(kBodyPieceBytes);
    auto& body = parser_->get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    body.more = true;
    Allow(deadlines_.body);
    http::async_read(stream_, buffer_, *parser_, Then([this](Error error) {
                       if (error == http::error::need_buffer) error = {};
                       OnPiece(error);
                     }));
  }

  void OnPiece(Error error) {
    const Error http_error = make_error_code(http::error::bad_chunk);
    if (error && error.category() == http_error.category() &&
        error != http::error::partial_message) {
      DropBody();
      return Refuse(400, "the request's body is no body\n");
    }
    if (error) return Close();
    TakePiece(piece_.size() - parser_->get().body().size);
  }

  // Gives the body what has come of it.
  void TakePiece(size_t bytes) {
    Lowest().expires_never();
    const bool is_last = parser_->is_done();
    auto answer = std::make_shared<std::optional<Response>>();
    calls_.run(
        [this, self = shared_from_this(), body = body_, bytes, is_last,
         answer] {
          if (bytes > 0) *answer = body->Take({piece_.data(), bytes});
          if (is_last && !answer->has_value()) *answer = body->End();
        },
        [this, self = shared_from_this(), answer](bool failed) {
          if (closed_) return;
          if (failed) *answer = InternalError();
          if (!answer->has_value()) return ReadPiece();
          DropBody();
          Answer(std::move(**answer));
        });
  }

  // A body may have a file to remove, which waits for the disk.
  void DropBody() {
    if (body_ == nullptr) return;
    calls_.run([body = std::move(body_)]() mutable { body.reset(); },
               [](bool) {});
  }

  // Answers the request; goes on with the next one where this one's body was
  // read.
  void Answer(Response response) {
    piece_ = {};
    Send(std::move(response),
         parser_->is_done() && parser_->get().keep_alive());
  }

  // Answers a request after which nothing of the connection can be trusted.
  void Refuse(
      int status, const char* why,
      const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    Send({.status = status, .body = why, .headers = headers},
         /*keep=*/false);
  }

  void Send(Response response, bool keep) {
    if (closed_) return;
    const std::shared_ptr<Content> content = std::move(response.content);
    if (is_head_ || content != nullptr) {
      const size_t bytes =
          content ? content->size_bytes() : response.body.size();
      content_ = is_head_ ? nullptr : content;
      Write(http::response<http::empty_body>(), response, bytes, keep);
    } else {
      http::response<http::string_body> message;
      message.body() = std::move(response.body);
      const size_t bytes = message.body().size();
      Write(std::move(message), response, bytes, keep);
    }
  }

  template <typename Message>
  void Write(Message message, const Response& response, size_t bytes,
             bool keep) {
    message.result(static_cast<unsigned>(response.status));
    message.version(parser_->get().version() == 10 ? 10 : 11);
    message.keep_alive(keep);
    message.content_length(bytes);
    message.set(http::field::content_type, response.content_type);
    message.set("X-Content-Type-Options", "nosniff");
    message.set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : response.headers) message.set(name, value);
    Allow(deadlines_.response);
    // The message has to stay where it is until it is written.
    auto kept = std::make_shared<Message>(std::move(message));
    http::async_write(stream_, *kept, Then([this, kept, keep](Error error) {
                        if (error) return Close();
                        content_left_ = content_ ? content_->size_bytes() : 0;
                        WriteContent(keep);
                      }));
  }

  // Writes what is left of an answer that is not in memory.
  void WriteContent(bool keep) {
    if (content_left_ <= 0) {
      content_ = nullptr;
      return keep ? AwaitRequest() : End();
    }
    Lowest().expires_never();
    auto read = std::make_shared<absl::StatusOr<std::string>>();
    calls_.run(
        [content = content_, read, left = content_left_] {
          *read = content->Read(std::min<int64_t>(left, kBodyPieceBytes));
        },
        [this, self = shared_from_this(), read, keep](bool failed) {
          if (closed_) return;
          // The header has promised more: nothing but an end tells the client.
          if (failed || !read->ok() || (*read)->empty()) return Close();
          WritePiece(std::move(**read), keep);
        });
  }

  void WritePiece(std::string bytes, bool keep) {
    content_left_ -= static_cast<int64_t>(bytes.size());
    piece_ = std::move(bytes);
    Allow(deadlines_.response);
    net::async_write(stream_, net::buffer(piece_),
                     Then([this, keep](Error error) {
                       error ? Close() : WriteContent(keep);
                     }));
  }

  // Closes so that the client has read everything before.
  void End() {
    Allow(kLinger);
    if constexpr (kSecure) {
      stream_.async_shutdown(Then([this](Error) { EndSocket(); }));
    } else {
      EndSocket();
    }
  }

  void EndSocket() {
    if (!Lowest().socket().is_open()) return Close();
    Error ignored;
    Lowest().socket().shutdown(net::socket_base::shutdown_send, ignored);
    Allow(kLinger);
    DrainSocket();
  }

  // A socket that is closed with bytes unread resets the connection, and the
  // client may never see the answer.
  void DrainSocket() {
    buffer_.clear();
    Lowest().async_read_some(
        buffer_.prepare(kPieceBytes),
        Then([this](Error error) { error ? Close() : DrainSocket(); }));
  }

  const std::shared_ptr<net::ssl::context> context_;
  Stream stream_;
  const std::string peer_;
  const Deadlines deadlines_;
  const Calls calls_;
  beast::flat_buffer buffer_{kBufferBytes};
  std::optional<Parser> parser_;
  std::shared_ptr<Body> body_;        // of the request under way
  std::shared_ptr<Content> content_;  // of the answer under way
  int64_t content_left_ = 0;          // bytes of it to be written
  std::string piece_;                 // of either
  bool is_head_ = false;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<Connection> MakeConnection(
    net::io_context& io, int fd, std::shared_ptr<net::ssl::context> tls,
    const Deadlines& deadlines, Connection::Calls calls) {
  std::string peer = PeerAddress(fd);
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  net::basic_stream_socket<Protocol> socket(io);
  Error error;
  static_cast<void>(socket.assign(Protocol(address.ss_family, 0), fd, error));
  if (error) {
    close(fd);
    return nullptr;
  }
  if (tls == nullptr) {
    return std::make_shared<StreamConnection<Plain>>(
        Plain(std::move(socket)), nullptr, std::move(peer), deadlines,
        std::move(calls));
  }
  net::ssl::context& context = *tls;
  return std::make_shared<StreamConnection<Secure>>(
      Plain(std::move(socket)), std::move(tls), std::move(peer), deadlines,
      std::move(calls), context);
}

}  // namespace mpsd::http
