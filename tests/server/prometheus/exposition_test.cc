// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/exposition.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;

std::shared_ptr<::prometheus::Registry> SomeMetrics() {
  auto registry = std::make_shared<::prometheus::Registry>();
  ::prometheus::BuildGauge().Name("answer").Register(*registry).Add({}).Set(42);
  return registry;
}

std::string Get(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string reply;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request =
        "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(send(fd, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    char piece[4096];
    for (ssize_t n; (n = recv(fd, piece, sizeof piece, 0)) > 0;) {
      reply.append(piece, n);
    }
  }
  close(fd);
  return reply;
}

int PortOf(const std::string& address) {
  return std::stoi(address.substr(address.rfind(':') + 1));
}

TEST(Exposition, ServesTheMetrics) {
  auto exposition = Exposition::Start("127.0.0.1:0", SomeMetrics());
  ASSERT_TRUE(exposition.ok()) << exposition.status();
  EXPECT_THAT((*exposition)->address(), HasSubstr("127.0.0.1:"));
  const int port = PortOf((*exposition)->address());
  EXPECT_THAT(Get(port), HasSubstr("answer 42"));
  exposition->reset();
  EXPECT_EQ(Get(port), "");
}

TEST(Exposition, RefusesATakenPort) {
  auto first = Exposition::Start("127.0.0.1:0", SomeMetrics());
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = Exposition::Start((*first)->address(), SomeMetrics());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr((*first)->address()));
}

TEST(Exposition, RefusesWhatIsNoHostAndPort) {
  for (const char* address :
       {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:http", "h:70000"}) {
    auto exposition = Exposition::Start(address, SomeMetrics());
    EXPECT_TRUE(absl::IsInvalidArgument(exposition.status())) << address;
  }
}

}  // namespace
}  // namespace mpsd::prometheus
