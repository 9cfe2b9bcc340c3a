// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>

#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "tests/server/http/served.h"

namespace mpsd::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using ConnectionTest = Served;

// Longer than any limit that a test sets, and shorter than the defaults, which
// are ten seconds.
constexpr absl::Duration kInTime = absl::Seconds(9);

// The answer to bytes that the client sends as they are.
std::string Answer(const std::string& address, const std::string& bytes) {
  Client client(address);
  EXPECT_TRUE(client.Send(bytes));
  return client.ReadAll();
}

TEST_F(ConnectionTest, AnswersAGet) {
  Serve();
  const std::string answer = Get(address(), "/a?b=c");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, HasSubstr("Cache-Control: no-store\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 20\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nyou asked for /a?b=c"));
}

TEST_F(ConnectionTest, AHeadIsAGetWithoutItsBody) {
  Serve();
  const std::string answer = Answer(
      address(), "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 15\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST_F(ConnectionTest, GoesOnAfterAnAnswer) {
  Serve();
  Client client(address());
  for (const char* target : {"/one", "/two", "/three"}) {
    ASSERT_TRUE(client.Send(std::string("GET ") + target +
                            " HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_THAT(client.ReadAnswer(), EndsWith(target));
  }
  // Two at once.
  ASSERT_TRUE(
      client.Send("GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n"
                  "Connection: close\r\n\r\n"));
  const std::string both = client.ReadAll();
  EXPECT_THAT(both, HasSubstr("you asked for /a"));
  EXPECT_THAT(both, EndsWith("you asked for /b"));
}

TEST_F(ConnectionTest, AnswersOldClients) {
  Serve();
  const std::string answer = Answer(address(), "GET /old HTTP/1.0\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_THAT(answer, EndsWith("/old"));
}

TEST_F(ConnectionTest, RefusesEveryOtherMethod) {
  Serve();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE",
                             "CONNECT", "PATCH", "NONSENSE"}) {
    const std::string answer =
        Answer(address(), std::string(method) +
                              " / HTTP/1.1\r\nHost: x\r\n"
                              "Content-Length: 5\r\n\r\nhello");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n"));
  }
}

TEST_F(ConnectionTest, RefusesWhatIsNoRequest) {
  Serve();
  for (const char* bytes :
       {"\x16\x03\x01\x02 a TLS client\r\n\r\n", "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello"}) {
    EXPECT_THAT(Answer(address(), bytes), StartsWith("HTTP/1.1 400 ")) << bytes;
  }
}

// What a proxy and the server could understand as different requests.
TEST_F(ConnectionTest, RequestsOfTwoMeaningsAreRefused) {
  Serve();
  const std::string rest = "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n";
  for (const char* lines :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 0\r\nContent-Length: 5\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: 0, 5\r\n", "Content-Length: -5\r\n",
        "Content-Length: +0\r\n", "Content-Length: 0x5\r\n",
        "Content-Length:\r\n", "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n", "Content-Length : 5\r\n",
        "Transfer-Encoding:\x0b"
        "chunked\r\n",
        "A: b\r\n Transfer-Encoding: chunked\r\n", "A: b\nC: d\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        "Host: localhost\r\nHost: evil.example\r\n", ": b\r\n"}) {
    const std::string answer = Answer(
        address(), std::string("GET / HTTP/1.1\r\n") + lines + "\r\n" + rest);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << lines;
    EXPECT_THAT(answer, Not(HasSubstr("smuggled"))) << lines;
  }
}

TEST_F(ConnectionTest, AHeaderHasABound) {
  Serve();
  const std::string line = "GET / HTTP/1.1\r\n", start = "A: ";
  const std::string end = "\r\nConnection: close\r\n\r\n";
  const std::string filler(limits::kHttpHeaderBytes - start.size() - end.size(),
                           'a');
  EXPECT_THAT(Answer(address(), line + start + filler + end),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Answer(address(), line + start + filler + "a" + end),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Answer(address(), "GET /" + filler + filler),
              StartsWith("HTTP/1.1 431 "));
}

TEST_F(ConnectionTest, AClientThatDripsIsClosedInTime) {
  options_.deadlines.request = absl::Milliseconds(300);
  Serve();
  Client client(address());
  const absl::Time start = absl::Now();
  client.Send("GET / HTTP/1.1\r\n");
  // A byte each 20 ms would keep a limit for one read from ever being reached.
  while (client.Send("a") && absl::Now() < start + kInTime) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_LT(absl::Now() - start, kInTime);
}

TEST_F(ConnectionTest, AClientThatSaysNothingIsClosedInTime) {
  options_.deadlines.idle = absl::Milliseconds(200);
  options_.deadlines.request = absl::Minutes(1);  // this one's comes in time
  Serve();
  Client idle(address());
  ASSERT_TRUE(idle.Send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(idle.ReadAnswer(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(idle.IsClosed());
  options_.deadlines.request = absl::Milliseconds(200);
  Serve();
  const absl::Time start = absl::Now();
  Client silent(address());
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_LT(absl::Now() - start, kInTime);
}

TEST_F(ConnectionTest, AClientThatReadsNothingIsClosedInTime) {
  options_.deadlines.response = absl::Milliseconds(300);
  Serve([](const Request&) {
    return Response{.body = std::string(64 << 20, 'x')};
  });
  // A server that is held up writes later: it gets more time, up to a bound.
  size_t bytes = size_t{64} << 20;
  for (int seconds = 1; bytes >= size_t{64} << 20 && seconds <= 16;
       seconds *= 2) {
    Client client(address());
    ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
    absl::SleepFor(absl::Seconds(seconds));
    bytes = client.ReadAll().size();
  }
  EXPECT_LT(bytes, size_t{64} << 20);
}

TEST_F(ConnectionTest, ATlsClientThatStopsInTheHandshakeIsClosedInTime) {
  options_.tls = MakeCertificate(folder_, 1);
  options_.deadlines.handshake = absl::Milliseconds(200);
  Serve();
  const absl::Time start = absl::Now();
  Client client(address());
  client.Send("\x16\x03\x01\x02");
  EXPECT_TRUE(client.IsClosed());
  EXPECT_LT(absl::Now() - start, kInTime);
}

TEST_F(ConnectionTest, SpeaksTheNewestTlsAlone) {
  options_.tls = MakeCertificate(folder_, 1);
  Serve();
  EXPECT_THAT(Get(address(), "/t", "", /*tls=*/true), EndsWith("asked for /t"));
  Client old(address());
  EXPECT_FALSE(old.StartTls(TLS1_2_VERSION));
  EXPECT_THAT(Get(address(), "/plain"), Not(HasSubstr("200")));
  EXPECT_THAT(Get(address(), "/t", "", /*tls=*/true), EndsWith("asked for /t"));
}

}  // namespace
}  // namespace mpsd::http
