// SPDX-License-Identifier: Apache-2.0
#include "server/http/server.h"

#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/printable.h"
#include "server/http/token.h"
#include "server/listener/listen_address.h"
#include "server/listener/listener.h"

namespace mpsd::http {
namespace {

namespace net = boost::asio;

// What clients prove and are shown; replaced as a whole.
struct Credentials {
  std::optional<Tls> tls;
  std::string token;  // empty: none is needed
};

absl::StatusOr<Credentials> Load(const Server::Options& options) {
  Credentials credentials;
  if (options.tls) {
    absl::StatusOr<Tls> tls = LoadTls(*options.tls);
    if (!tls.ok()) return tls.status();
    credentials.tls = *std::move(tls);
    if (credentials.tls->expiry < absl::Now()) {
      options.log(absl::StrCat(options.tls->certificate.string(),
                               ": the certificate ended on ",
                               absl::FormatTime("%F", credentials.tls->expiry,
                                                absl::UTCTimeZone())));
    }
  }
  if (!options.token_file.empty()) {
    absl::StatusOr<std::string> token = ReadTokenFile(options.token_file);
    if (!token.ok()) return token.status();
    credentials.token = *std::move(token);
  }
  return credentials;
}

Response Refusal(int status, std::string why,
                 std::pair<std::string, std::string> header) {
  return {.status = status, .body = std::move(why), .headers = {header}};
}

}  // namespace

// The server behind the interface. Connections belong to the I/O thread.
class Server::Core {
 public:
  Core(Options options, Credentials credentials)
      : options_(std::move(options)),
        credentials_(std::move(credentials)),
        work_(net::make_work_guard(io_)),
        pool_(static_cast<size_t>(options_.handler_threads)) {}

  absl::Status Listen() {
    absl::StatusOr<std::unique_ptr<listener::Listener>> opened =
        listener::Listener::Open(
            {{options_.address}, options_.max_descriptor, options_.log});
    if (!opened.ok()) return opened.status();
    listener_ = *std::move(opened);
    return absl::OkStatus();
  }

  void Serve(Handler handler) {
    begin_ = [handler = std::move(handler)](const Request& request) {
      return Begun(handler(request));
    };
    Start();
  }

  void Serve(Door& door) {
    begin_ = [&door](const Request& request) { return door.Begin(request); };
    body_pool_.emplace(static_cast<size_t>(options_.body_threads));
    Start();
  }

  void Start() {
    base::Check(!io_thread_.joinable(), "Serve is called once");
    io_thread_ = std::thread([this] { io_.run(); });
    listener_->Start([this](const listener::Accepted& accepted) {
      net::post(io_, [this, fd = accepted.fd] { Take(fd); });
    });
  }

  ~Core() {
    if (listener_) listener_->Stop();
    // The listener's last connections are taken before, and closed with the
    // others.
    net::post(io_, [this] { io_.stop(); });
    if (io_thread_.joinable()) io_thread_.join();
    connections_.clear();
    pool_.stop();
    if (body_pool_) body_pool_->stop();
    pool_.join();
    if (body_pool_) body_pool_->join();
  }

  absl::Status Reload() {
    absl::StatusOr<Credentials> credentials = Load(options_);
    if (!credentials.ok()) return credentials.status();
    absl::MutexLock lock(&mutex_);
    credentials_ = *std::move(credentials);
    return absl::OkStatus();
  }

  Credentials credentials() const {
    absl::MutexLock lock(&mutex_);
    return credentials_;
  }
  const std::string& address() const { return listener_->addresses().front(); }

 private:
  void Take(int fd) {
    if (connections_.size() >= options_.max_connections) CloseIdle();
    if (connections_.size() >= options_.max_connections) {
      close(fd);
      return;
    }
    const std::optional<Tls> tls = credentials().tls;
    Connection::Calls calls;
    calls.answer = [this](Request request, Connection::Reply reply) {
      Answer(std::move(request), std::move(reply));
    };
    if (body_pool_) {
      calls.run = [this](std::function<void()> work,
                         std::function<void(bool)> then) {
        Run(std::move(work), std::move(then));
      };
    }
    calls.closed = [this](Connection* connection) {
      connections_.erase(connection);
    };
    const std::shared_ptr<Connection> connection =
        MakeConnection(io_, fd, tls ? tls->context : nullptr,
                       options_.deadlines, std::move(calls));
    if (connection == nullptr) return;
    connections_[connection.get()] = connection;
    connection->Start();
  }

  // Makes room by the connection that is needed least.
  void CloseIdle() {
    Connection* idle = nullptr;
    for (const auto& [connection, owner] : connections_) {
      if (connection->idle_since() &&
          (idle == nullptr ||
           *connection->idle_since() < *idle->idle_since())) {
        idle = connection;
      }
    }
    if (idle != nullptr) idle->Close();
  }

  void Answer(Request request, Connection::Reply reply) {
    const std::string token = credentials().token;
    if (!token.empty() && !HasToken(request.authorization, token)) {
      return reply(Refusal(401, "a bearer token is needed\n",
                           {"WWW-Authenticate", "Bearer"}));
    }
    if (waiting_ >= options_.max_waiting) {
      return reply(
          Refusal(503, "too many requests wait\n", {"Retry-After", "1"}));
    }
    ++waiting_;
    // Who only asks never waits for who sends.
    net::thread_pool& pool =
        request.has_body && body_pool_ ? *body_pool_ : pool_;
    net::post(pool, [this, request = std::move(request),
                     reply = std::move(reply)]() mutable {
      net::post(io_, [this, reply = std::move(reply),
                      begun = Handled(request)]() mutable {
        --waiting_;
        reply(std::move(begun));
      });
    });
  }

  // The handler's answer; an exception ends one request and nothing else.
  Begun Handled(const Request& request) {
    try {
      return begin_(request);
    } catch (...) {
      // The exception's text may quote a user's data.
      options_.log(absl::StrCat(options_.address,
                                ": an exception in the answer to ",
                                base::Quotable(request.target)));
      return Response{.status = 500,
                      .body = "internal error; mpsd's log has more\n"};
    }
  }

  void Run(std::function<void()> work, std::function<void(bool)> then) {
    net::post(*body_pool_, [this, work = std::move(work),
                            then = std::move(then)]() mutable {
      bool failed = false;
      try {
        work();
      } catch (...) {
        failed = true;
        options_.log(
            absl::StrCat(options_.address, ": an exception within a body"));
      }
      // What the work holds goes here, and not on the thread of the
      // connections: a body may wait for the disk.
      work = nullptr;
      net::post(io_, [then = std::move(then), failed] { then(failed); });
    });
  }

  const Options options_;
  std::function<Begun(const Request&)> begin_;
  mutable absl::Mutex mutex_;
  Credentials credentials_ ABSL_GUARDED_BY(mutex_);
  net::io_context io_;
  const net::executor_work_guard<net::io_context::executor_type> work_;
  net::thread_pool pool_;
  std::optional<net::thread_pool> body_pool_;  // where a door is served
  std::unique_ptr<listener::Listener> listener_;
  std::thread io_thread_;
  // Used by the I/O thread alone.
  std::map<Connection*, std::shared_ptr<Connection>> connections_;
  int waiting_ = 0;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Open(Options options) {
  if (absl::Status s = listener::CheckListenAddress(options.address); !s.ok()) {
    return s;
  }
  absl::StatusOr<Credentials> credentials = Load(options);
  if (!credentials.ok()) return credentials.status();
  auto core =
      std::make_unique<Core>(std::move(options), *std::move(credentials));
  if (absl::Status s = core->Listen(); !s.ok()) return s;
  return std::unique_ptr<Server>(new Server(std::move(core)));
}

Server::Server(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Server::~Server() = default;

void Server::Serve(Handler handler) { core_->Serve(std::move(handler)); }

void Server::Serve(Door& door) { core_->Serve(door); }

absl::Status Server::Reload() { return core_->Reload(); }

const std::string& Server::address() const { return core_->address(); }

std::optional<absl::Time> Server::certificate_expiry() const {
  const std::optional<Tls> tls = core_->credentials().tls;
  if (!tls) return std::nullopt;
  return tls->expiry;
}

}  // namespace mpsd::http
