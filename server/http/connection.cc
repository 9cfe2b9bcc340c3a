// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/limits.h"

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
// How long the last answer's end waits for the client to have read it.
constexpr absl::Duration kLinger = absl::Seconds(1);

template <typename StringView>
std::string Text(const StringView& text) {
  return {text.data(), text.size()};
}

template <typename Stream>
class StreamConnection final : public Connection {
 public:
  static constexpr bool kSecure = std::is_same_v<Stream, Secure>;

  template <typename... Tls>
  StreamConnection(Plain socket, std::shared_ptr<net::ssl::context> context,
                   const Deadlines& deadlines, Calls calls, Tls&... tls)
      : context_(std::move(context)),
        stream_(std::move(socket), tls...),
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
    if (!is_head_ && request.method() != http::verb::get) {
      return Refuse(405, "only GET and HEAD are answered\n",
                    {{"Allow", "GET, HEAD"}});
    }
    if (!parser_->is_done()) return Refuse(400, "a request has no body here\n");
    Lowest().expires_never();  // until the handler has answered
    calls_.answer(
        {Text(request.target()), Text(request[http::field::host]),
         Text(request[http::field::authorization]),
         Text(request[http::field::accept]),
         Text(request[http::field::accept_encoding])},
        [this, self = shared_from_this(), keep = request.keep_alive()](
            Response response) { Send(std::move(response), keep); });
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
    if (is_head_) {
      const size_t bytes = response.body.size();
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
                        keep ? AwaitRequest() : End();
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
  const Deadlines deadlines_;
  const Calls calls_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  bool is_head_ = false;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<Connection> MakeConnection(
    net::io_context& io, int fd, std::shared_ptr<net::ssl::context> tls,
    const Deadlines& deadlines, Connection::Calls calls) {
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
        Plain(std::move(socket)), nullptr, deadlines, std::move(calls));
  }
  net::ssl::context& context = *tls;
  return std::make_shared<StreamConnection<Secure>>(Plain(std::move(socket)),
                                                    std::move(tls), deadlines,
                                                    std::move(calls), context);
}

}  // namespace mpsd::http
