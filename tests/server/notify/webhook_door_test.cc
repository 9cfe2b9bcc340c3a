// SPDX-License-Identifier: Apache-2.0
#include "server/notify/webhook_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/notify/signature.h"
#include "tests/core/closed_port.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/fetch/http_peer.h"

namespace mpsd::notify {
namespace {

using fetch::HttpPeer;

using Outcome = Delivery::Outcome;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kSecret[] = "0123456789abcdef";
// Longer than the timeouts that a test sets, and shorter than the default.
constexpr absl::Duration kInTime = absl::Seconds(14);

class WebhookDoorTest : public testing::Test {
 protected:
  WebhookDoorTest() {
    for (const char* name : {"http_proxy", "https_proxy", "all_proxy",
                             "HTTPS_PROXY", "ALL_PROXY"}) {
      unsetenv(name);
    }
    notice_.id = "01M-7";
    notice_.event = "failed";
    notice_.body = R"({"event":"failed","text":"ein Ärger"})";
  }

  Delivery Post(const std::string& url,
                absl::Duration timeout = absl::Minutes(2)) {
    WebhookDoor::Options options;
    options.url = url;
    options.secret = secret_;
    options.timeout = timeout;
    options.connect_timeout = absl::Minutes(1);
    WebhookDoor door(std::move(options), clock_);
    return door.Deliver(notice_);
  }
  Delivery PostTo(const HttpPeer::Answer& answer,
                  absl::Duration timeout = absl::Minutes(2)) {
    HttpPeer peer(answer);
    Delivery delivery = Post(peer.url(), timeout);
    requests_ = peer.requests();
    return delivery;
  }

  fakes::FakeClock clock_;
  Notice notice_;
  std::string secret_ = kSecret;
  std::vector<std::string> requests_;
};

TEST_F(WebhookDoorTest, PostsTheBodyWithItsSignature) {
  EXPECT_EQ(PostTo(HttpPeer::Says("200 OK")).outcome, Outcome::kSent);
  ASSERT_THAT(requests_, SizeIs(1));
  const std::string& request = requests_[0];
  EXPECT_THAT(request, HasSubstr("POST /hook?token=s3cret HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nUser-Agent: mpsd/" MPSD_VERSION));
  EXPECT_THAT(request, HasSubstr("\r\nMpsd-Id: 01M-7\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nMpsd-Event: failed\r\n"));
  EXPECT_THAT(request,
              HasSubstr("\r\nMpsd-Signature: " +
                        SignatureOf(kSecret, clock_.Now(), notice_.body)));
  EXPECT_TRUE(request.ends_with("\r\n\r\n" + notice_.body));
  EXPECT_THAT(request, Not(HasSubstr("Expect:")));
}

TEST_F(WebhookDoorTest, EachTryIsSignedWithItsOwnTime) {
  HttpPeer peer(HttpPeer::Says("200 OK"));
  Post(peer.url());
  clock_.Advance(absl::Hours(1));
  Post(peer.url());
  ASSERT_THAT(peer.requests(), SizeIs(2));
  EXPECT_THAT(peer.requests()[0], HasSubstr("t=1767225600,"));
  EXPECT_THAT(peer.requests()[1], HasSubstr("t=1767229200,"));
}

TEST_F(WebhookDoorTest, WithoutASecretNothingIsSigned) {
  secret_.clear();
  EXPECT_EQ(PostTo(HttpPeer::Says("204 No Content")).outcome, Outcome::kSent);
  ASSERT_THAT(requests_, SizeIs(1));
  EXPECT_THAT(requests_[0], Not(HasSubstr("Mpsd-Signature")));
}

TEST_F(WebhookDoorTest, TriesAgainWhereAnotherTryMaySucceed) {
  for (const char* status : {"408 Timeout", "429 Slow down", "500 Oops",
                             "502 Bad Gateway", "503 Busy"}) {
    const Delivery delivery = PostTo(HttpPeer::Says(status));
    EXPECT_EQ(delivery.outcome, Outcome::kLater) << status;
    EXPECT_THAT(delivery.why, HasSubstr(std::string(status).substr(0, 3)));
    EXPECT_FALSE(delivery.wait.has_value());
  }
  for (const char* status : {"400 Bad", "401 Who", "404 None", "410 Gone"}) {
    const Delivery delivery = PostTo(HttpPeer::Says(status));
    EXPECT_EQ(delivery.outcome, Outcome::kRefused) << status;
    EXPECT_THAT(delivery.why, HasSubstr(": body"));
  }
}

TEST_F(WebhookDoorTest, WaitsAsTheServerAsksAndAnHourAtMost) {
  EXPECT_EQ(PostTo(HttpPeer::Says("429 Slow", "Retry-After: 7\r\n")).wait,
            absl::Seconds(7));
  EXPECT_EQ(PostTo(HttpPeer::Says("503 Busy", "Retry-After: 999999\r\n")).wait,
            absl::Hours(1));
}

TEST_F(WebhookDoorTest, FollowsNoRedirect) {
  HttpPeer other(HttpPeer::Says("200 OK"));
  const Delivery delivery =
      PostTo(HttpPeer::Says("307 There", "Location: " + other.url() + "\r\n"));
  EXPECT_EQ(delivery.outcome, Outcome::kRefused);
  EXPECT_THAT(delivery.why, HasSubstr("redirects are not followed"));
  EXPECT_THAT(other.requests(), IsEmpty());
}

TEST_F(WebhookDoorTest, AServerThatIsNotThereIsTriedAgain) {
  const testing_support::ClosedPort nobody;
  const Delivery delivery = Post(
      absl::StrCat("http://127.0.0.1:", nobody.port(), "/hook?token=s3cret"));
  EXPECT_EQ(delivery.outcome, Outcome::kLater);
  EXPECT_THAT(delivery.why, Not(HasSubstr("s3cret")));
  EXPECT_EQ(Post("http://nobody.invalid/hook").outcome, Outcome::kLater);
}

TEST_F(WebhookDoorTest, AnAnswerThatIsNoHttpIsTriedAgain) {
  const auto garbage = [](int socket, const std::atomic<bool>&) {
    HttpPeer::Send(socket, std::string("\x1b[2J\0garbage", 11));
  };
  EXPECT_EQ(PostTo(garbage).outcome, Outcome::kLater);
  const auto hangs_up = [](int, const std::atomic<bool>&) {};
  EXPECT_EQ(PostTo(hangs_up).outcome, Outcome::kLater);
}

TEST_F(WebhookDoorTest, TheLogGetsNoControlCharactersOfAnAnswer) {
  const auto coloured = [](int socket, const std::atomic<bool>&) {
    HttpPeer::Send(socket,
                   "HTTP/1.1 400 Bad\r\nContent-Length: 8\r\n\r\n\x1b[2J\nfoo");
  };
  EXPECT_EQ(PostTo(coloured).why, "HTTP 400: \\x1b[2J\\nfoo");
}

TEST_F(WebhookDoorTest, ASilentServerEndsWithTheTimeout) {
  const auto silent = [](int, const std::atomic<bool>& stopped) {
    while (!stopped) absl::SleepFor(absl::Milliseconds(5));
  };
  const absl::Time start = absl::Now();
  EXPECT_EQ(PostTo(silent, absl::Milliseconds(300)).outcome, Outcome::kLater);
  EXPECT_LT(absl::Now() - start, kInTime);
}

// Each byte comes in time, the whole never.
TEST_F(WebhookDoorTest, AServerThatDripsEndsWithTheTimeout) {
  const auto drips = [](int socket, const std::atomic<bool>& stopped) {
    HttpPeer::Send(socket, "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n");
    while (!stopped && HttpPeer::Send(socket, "x")) {
      absl::SleepFor(absl::Milliseconds(20));
    }
  };
  const absl::Time start = absl::Now();
  EXPECT_EQ(PostTo(drips, absl::Milliseconds(300)).outcome, Outcome::kLater);
  EXPECT_LT(absl::Now() - start, kInTime);
}

TEST_F(WebhookDoorTest, AnEndlessAnswerIsCutAndItsStatusCounts) {
  const auto endless = [](int socket, const std::atomic<bool>& stopped) {
    HttpPeer::Send(socket, "HTTP/1.1 200 OK\r\n\r\n");
    const std::string piece(64 << 10, 'x');
    while (!stopped && HttpPeer::Send(socket, piece)) {
    }
  };
  const absl::Time start = absl::Now();
  EXPECT_EQ(PostTo(endless).outcome, Outcome::kSent);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1)) << "by the timeout";
}

TEST_F(WebhookDoorTest, AnInterruptEndsATryAtOnce) {
  HttpPeer peer([](int, const std::atomic<bool>& stopped) {
    while (!stopped) absl::SleepFor(absl::Milliseconds(5));
  });
  WebhookDoor::Options options;
  options.url = peer.url();
  options.timeout = absl::Minutes(10);
  WebhookDoor door(std::move(options), clock_);
  std::thread interrupter([&] {
    absl::SleepFor(absl::Milliseconds(100));
    door.Interrupt();
  });
  const absl::Time start = absl::Now();
  EXPECT_EQ(door.Deliver(notice_).outcome, Outcome::kLater);
  EXPECT_EQ(door.Deliver(notice_).outcome, Outcome::kLater);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  interrupter.join();
}

TEST_F(WebhookDoorTest, SpeaksTlsWhereTheUrlSaysSo) {
  HttpPeer peer(HttpPeer::Says("200 OK"));
  std::string url = peer.url();
  url.replace(0, 4, "https");
  EXPECT_EQ(Post(url, absl::Seconds(1)).outcome, Outcome::kLater);
}

}  // namespace
}  // namespace mpsd::notify
