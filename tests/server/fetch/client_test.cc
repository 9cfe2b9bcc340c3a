// SPDX-License-Identifier: Apache-2.0
#include "server/fetch/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/core/closed_port.h"
#include "tests/server/fetch/http_peer.h"

namespace mpsd::fetch {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    for (const char* name : {"http_proxy", "https_proxy", "all_proxy",
                             "HTTPS_PROXY", "ALL_PROXY"}) {
      unsetenv(name);
    }
    options_.connect_timeout = absl::Minutes(1);
  }
  absl::StatusOr<Answer> Get(const std::string& url, const Sink& sink = {}) {
    Client client(options_);
    request_.url = url;
    return client.Run(request_, sink);
  }
  absl::StatusOr<Answer> GetFrom(const HttpPeer::Answer& answer,
                                 const Sink& sink = {}) {
    HttpPeer peer(answer);
    absl::StatusOr<Answer> got = Get(peer.url(), sink);
    requests_ = peer.requests();
    return got;
  }
  // The bytes are the whole answer.
  static HttpPeer::Answer Sends(const std::string& bytes) {
    return [=](int socket, const std::atomic<bool>&) {
      HttpPeer::Send(socket, bytes);
    };
  }
  static absl::Duration Since(absl::Time start) { return absl::Now() - start; }

  Client::Options options_;
  Request request_;
  std::vector<std::string> requests_;
};

TEST_F(ClientTest, GetsStatusHeadersAndBody) {
  request_.headers = {"Authorization: Bearer t"};
  const auto answer =
      GetFrom(HttpPeer::Says("418 Teapot", "X-Some: a\r\nx-some:  b \r\n"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 418);
  EXPECT_EQ(answer->body, "body");
  EXPECT_FALSE(answer->cut);
  EXPECT_EQ(answer->Header("x-some"), "b");
  EXPECT_EQ(answer->Header("x-other"), "");
  EXPECT_EQ(answer->retry_after, absl::ZeroDuration());
  ASSERT_THAT(requests_, SizeIs(1));
  EXPECT_THAT(requests_[0], HasSubstr("GET /hook?token=s3cret HTTP/1.1\r\n"));
  EXPECT_THAT(requests_[0], HasSubstr("\r\nAuthorization: Bearer t\r\n"));
  EXPECT_THAT(requests_[0], HasSubstr("\r\nUser-Agent: mpsd/" MPSD_VERSION));
}

TEST_F(ClientTest, TellsTheWaitThatTheServerAsksFor) {
  const auto answer =
      GetFrom(HttpPeer::Says("429 Slow down", "Retry-After: 7\r\n"));
  EXPECT_EQ(answer.value().retry_after, absl::Seconds(7));
}

TEST_F(ClientTest, KeepsTheBeginningOfALongBody) {
  request_.max_body = 3;
  const auto answer = GetFrom(HttpPeer::Says("200 OK"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "bod");
  EXPECT_TRUE(answer->cut);
}

TEST_F(ClientTest, TheSinkGetsTheBodyWithItsStatus) {
  std::string bytes;
  int status = 0;
  const auto answer = GetFrom(HttpPeer::Says("206 Partial", "X-A: b\r\n"),
                              [&](const Answer& head, std::string_view some) {
                                status = head.status;
                                EXPECT_EQ(head.Header("x-a"), "b");
                                bytes += some;
                                return absl::OkStatus();
                              });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(bytes, "body");
  EXPECT_EQ(status, 206);
  EXPECT_EQ(answer->body, "");
}

TEST_F(ClientTest, TheSinkGetsNoBodyOfAnError) {
  const auto answer =
      GetFrom(HttpPeer::Says("404 None"), [&](const Answer&, std::string_view) {
        return absl::InternalError("a sink");
      });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "body");
}

TEST_F(ClientTest, TheSinksErrorEndsTheTransfer) {
  const auto endless = [](int socket, const std::atomic<bool>& stopped) {
    HttpPeer::Send(socket, "HTTP/1.1 200 OK\r\n\r\n");
    const std::string piece(64 << 10, 'x');
    while (!stopped && HttpPeer::Send(socket, piece)) {
    }
  };
  const absl::Time start = absl::Now();
  const auto answer = GetFrom(endless, [](const Answer&, std::string_view) {
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_EQ(answer.status().message(), "full");
  EXPECT_LT(Since(start), absl::Minutes(1));
}

TEST_F(ClientTest, ABodyThatBreaksOffIsNoAnswer) {
  for (const char* bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        "HTTP/1.1 200", "", "SSH-2.0-OpenSSH\r\n"}) {
    EXPECT_EQ(GetFrom(Sends(bytes)).status().code(),
              absl::StatusCode::kUnavailable)
        << bytes;
  }
}

TEST_F(ClientTest, FollowsNoRedirect) {
  HttpPeer other(HttpPeer::Says("200 OK"));
  const auto answer =
      GetFrom(HttpPeer::Says("302 There", "Location: " + other.url() + "\r\n"));
  EXPECT_EQ(answer.value().status, 302);
  EXPECT_THAT(other.requests(), IsEmpty());
}

TEST_F(ClientTest, ErrorsDoNotRepeatThePath) {
  const testing_support::ClosedPort nobody;
  for (const std::string& some :
       {absl::StrCat("http://127.0.0.1:", nobody.port(), "/hook?token=s3cret"),
        std::string("http://nobody.invalid/s3cret")}) {
    const auto answer = Get(some);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(answer.status().message()),
                Not(HasSubstr("s3cret")));
  }
}

TEST_F(ClientTest, NothingIsSentToAPrivateAddress) {
  request_.public_only = true;
  HttpPeer peer(HttpPeer::Says("200 OK"));
  for (const std::string& host :
       {std::string("127.0.0.1"), std::string("localhost"),
        std::string("0x7f000001")}) {
    const auto answer =
        Get(absl::StrCat("http://", host, ":", peer.port(), "/"));
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kPermissionDenied)
        << host << answer.status();
    EXPECT_THAT(std::string(answer.status().message()),
                HasSubstr("not one of the public internet"));
  }
  EXPECT_THAT(peer.requests(), IsEmpty());
}

// A proxy would connect to the private address in mpsd's place.
TEST_F(ClientTest, PublicAddressesAreAskedWithoutAProxy) {
  HttpPeer proxy(HttpPeer::Says("200 OK"));
  setenv("http_proxy", absl::StrCat("http://127.0.0.1:", proxy.port()).c_str(),
         1);
  EXPECT_TRUE(Get("http://nobody.invalid/").ok());
  EXPECT_THAT(proxy.requests(), SizeIs(1));
  request_.public_only = true;
  EXPECT_FALSE(Get("http://nobody.invalid/").ok());
  EXPECT_THAT(proxy.requests(), SizeIs(1));
  unsetenv("http_proxy");
}

TEST_F(ClientTest, ATransferThatStallsIsBroken) {
  options_.stall = absl::Seconds(1);
  const auto drips = [](int socket, const std::atomic<bool>& stopped) {
    HttpPeer::Send(socket, "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n");
    while (!stopped && HttpPeer::Send(socket, "x")) {
      absl::SleepFor(absl::Milliseconds(100));
    }
  };
  const absl::Time start = absl::Now();
  EXPECT_EQ(GetFrom(drips).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(Since(start), absl::Minutes(1));
}

TEST_F(ClientTest, AnInterruptEndsARunAtOnceAndEachLaterOne) {
  HttpPeer peer([](int, const std::atomic<bool>& stopped) {
    while (!stopped) absl::SleepFor(absl::Milliseconds(5));
  });
  Client client(options_);
  std::thread interrupter([&] {
    absl::SleepFor(absl::Milliseconds(50));
    client.Interrupt();
  });
  request_.url = peer.url();
  const absl::Time start = absl::Now();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(client.Run(request_).status().code(),
              absl::StatusCode::kCancelled);
  }
  EXPECT_LT(Since(start), absl::Minutes(1));
  interrupter.join();
}

TEST_F(ClientTest, HeadersWithoutEndAreCut) {
  std::string bytes = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&bytes, "X-", i, ": ", std::string(80, 'a'), "\r\n");
  }
  bytes += "Content-Length: 0\r\n\r\n";
  const auto answer = GetFrom(Sends(bytes));
  size_t kept = 0;
  if (answer.ok()) {
    for (const auto& [name, value] : answer->headers) kept += value.size();
  }
  EXPECT_LE(kept, size_t{64} << 10);
}

}  // namespace
}  // namespace mpsd::fetch
