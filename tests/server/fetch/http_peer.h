// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_FETCH_HTTP_PEER_H_
#define MPSD_TESTS_SERVER_FETCH_HTTP_PEER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::fetch {

// An HTTP server on loopback that behaves as a test says. One connection after
// the other, one request a connection.
class HttpPeer {
 public:
  // Answers one request on the socket; `stopped` becomes true when the test
  // ends.
  using Answer =
      std::function<void(int socket, const std::atomic<bool>& stopped)>;

  explicit HttpPeer(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener_, 8) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) !=
            0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~HttpPeer() {
    stopped_ = true;
    thread_.join();
    close(listener_);
  }

  static Answer Says(const std::string& status, const std::string& more = "") {
    return [=](int socket, const std::atomic<bool>&) {
      Send(socket, absl::StrCat("HTTP/1.1 ", status, "\r\n", more,
                                "Content-Length: 4\r\n\r\nbody"));
    };
  }
  static bool Send(int socket, const std::string& bytes) {
    return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
  }

  std::string url() const {
    return absl::StrCat("http://127.0.0.1:", port_, "/hook?token=s3cret");
  }
  int port() const { return port_; }
  std::vector<std::string> requests() const {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  void Serve() {
    while (!stopped_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 10) <= 0) continue;
      const int connection = accept(listener_, nullptr, nullptr);
      std::string request = Receive(connection);
      {
        absl::MutexLock lock(&mutex_);
        requests_.push_back(std::move(request));
      }
      answer_(connection, stopped_);
      close(connection);
    }
  }
  // A request with its body, by its Content-Length.
  std::string Receive(int connection) const {
    std::string request;
    char bytes[4096];
    while (!stopped_ && !IsWhole(request)) {
      pollfd waiting{connection, POLLIN, 0};
      if (poll(&waiting, 1, 10) <= 0) continue;
      const ssize_t got = recv(connection, bytes, sizeof(bytes), 0);
      if (got <= 0) break;
      request.append(bytes, static_cast<size_t>(got));
    }
    return request;
  }
  static bool IsWhole(const std::string& request) {
    const size_t end = request.find("\r\n\r\n");
    if (end == request.npos) return false;
    const std::string name = "Content-Length: ";
    const size_t at = request.find(name);
    if (at == request.npos) return true;
    int64_t length = 0;
    const size_t from = at + name.size();
    if (!absl::SimpleAtoi(
            request.substr(from, request.find("\r\n", from) - from), &length)) {
      return true;
    }
    return request.size() >= end + 4 + static_cast<size_t>(length);
  }

  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopped_ = false;
  mutable absl::Mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace mpsd::fetch

#endif  // MPSD_TESTS_SERVER_FETCH_HTTP_PEER_H_
