// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace mpsd::http {

// A client that sends what a test says and reads what comes, for at most a
// minute.
class Client {
 public:
  // "127.0.0.1:PORT" or "unix:/path"; from an address of 127.0.0.0/8.
  explicit Client(const std::string& address, uint32_t from = INADDR_LOOPBACK) {
    if (address.starts_with("unix:")) {
      sockaddr_un name{};
      name.sun_family = AF_UNIX;
      address.copy(name.sun_path, sizeof(name.sun_path) - 1, 5);
      Connect(reinterpret_cast<sockaddr*>(&name), sizeof(name), AF_UNIX, 0);
    } else {
      sockaddr_in name{};
      name.sin_family = AF_INET;
      name.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
      name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      Connect(reinterpret_cast<sockaddr*>(&name), sizeof(name), AF_INET, from);
    }
  }
  ~Client() {
    if (fd_ >= 0) close(fd_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // False where the handshake fails. Trusts every certificate.
  bool StartTls(int max_version = TLS1_3_VERSION) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_max_proto_version(context_.get(), max_version);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_);
    return SSL_connect(ssl_.get()) == 1;
  }
  // The seconds until the server's certificate ends, about.
  double DaysOfCertificate() const {
    int days = 0, seconds = 0;
    const std::unique_ptr<X509, decltype(&X509_free)> peer(
        SSL_get1_peer_certificate(ssl_.get()), &X509_free);
    ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(peer.get()));
    return days + seconds / 86400.0;
  }

  bool Send(const std::string& bytes) {
    const auto size = static_cast<ssize_t>(bytes.size());
    return ssl_ ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(size)) ==
                      size
                : send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == size;
  }
  // Everything up to the end of the connection; what came within a minute where
  // it does not end.
  std::string ReadAll() {
    std::string text;
    while (ReadPiece(text)) {
    }
    return text;
  }
  // One answer of a connection that stays open.
  std::string ReadAnswer() {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos && ReadPiece(text)) {
    }
    const size_t header = text.find("\r\n\r\n") + 4;
    const size_t length = text.find("Content-Length: ");
    if (length == std::string::npos) return text;
    const size_t bytes = header + std::stoul(text.substr(length + 16));
    while (text.size() < bytes && ReadPiece(text)) {
    }
    return text;
  }
  // Whether the server has closed the connection; waits for at most a minute.
  bool IsClosed() {
    char byte;
    const ssize_t n = recv(fd_, &byte, 1, 0);
    return n == 0 || (n < 0 && errno != EAGAIN);
  }

 private:
  void Connect(const sockaddr* name, socklen_t length, int family,
               uint32_t from) {
    fd_ = socket(family, SOCK_STREAM, 0);
    const timeval patience{60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(from);
    const bool bound =
        family != AF_INET ||
        bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0;
    if (bound && connect(fd_, name, length) == 0) return;
    close(fd_);
    fd_ = -1;
  }
  bool ReadPiece(std::string& text) {
    char piece[4096];
    const ssize_t n = ssl_ ? SSL_read(ssl_.get(), piece, sizeof piece)
                           : recv(fd_, piece, sizeof piece, 0);
    if (n <= 0) return false;
    text.append(piece, n);
    return true;
  }

  int fd_ = -1;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr,
                                                             &SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

// A GET on a connection of its own.
inline std::string Get(const std::string& address, const std::string& target,
                       const std::string& headers = "", bool tls = false) {
  Client client(address);
  if (!client.connected() || (tls && !client.StartTls())) return "";
  client.Send("GET " + target + " HTTP/1.1\r\nHost: x\r\n" + headers +
              "Connection: close\r\n\r\n");
  return client.ReadAll();
}

}  // namespace mpsd::http
