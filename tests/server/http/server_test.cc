// SPDX-License-Identifier: Apache-2.0
#include "server/http/server.h"

#include <poll.h>

#include <atomic>
#include <deque>
#include <stdexcept>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/http/site.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/server/http/served.h"

namespace mpsd::http {
namespace {

using ServerTest = Served;

const std::string kToken(32, 'a'), kOther(32, 'b');

TEST_F(ServerTest, RefusesAClientWithoutTheToken) {
  options_.token_file = WriteToken(kToken + "\n");
  Serve();
  for (const std::string& headers :
       {std::string(), "Authorization: Bearer " + kOther + "\r\n",
        "Authorization: Bearer " + kToken + "a\r\n",
        "Authorization: Basic " + kToken + "\r\n"}) {
    const std::string answer = Get(address(), "/secret", headers);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 ")) << headers;
    EXPECT_THAT(answer, HasSubstr("WWW-Authenticate: Bearer\r\n"));
    EXPECT_THAT(answer, Not(HasSubstr("secret")));
  }
  EXPECT_THAT(
      Get(address(), "/secret", "Authorization: Bearer " + kToken + "\r\n"),
      EndsWith("/secret"));
}

TEST_F(ServerTest, ANewTokenCountsAtOnce) {
  options_.token_file = WriteToken(kToken);
  Serve();
  const std::string request =
      "GET / HTTP/1.1\r\nAuthorization: Bearer " + kToken + "\r\n\r\n";
  Client before(address());
  ASSERT_TRUE(before.Send(request));
  EXPECT_THAT(before.ReadAnswer(), StartsWith("HTTP/1.1 200 "));
  WriteToken(kOther);
  ASSERT_TRUE(server_->Reload().ok());
  ASSERT_TRUE(before.Send(request));
  EXPECT_THAT(before.ReadAnswer(), StartsWith("HTTP/1.1 401 "));
  // A file that cannot be used changes nothing.
  WriteToken("short");
  EXPECT_TRUE(absl::IsInvalidArgument(server_->Reload()));
  EXPECT_THAT(Get(address(), "/", "Authorization: Bearer " + kOther + "\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, ARenewedCertificateIsShownAtOnce) {
  options_.tls = MakeCertificate(folder_, 1);
  Serve();
  const absl::Time first = *server_->certificate_expiry();
  EXPECT_NEAR(absl::ToDoubleHours(first - absl::Now()), 24, 1);
  Client before(address());
  ASSERT_TRUE(before.StartTls());
  EXPECT_LT(before.DaysOfCertificate(), 2);
  MakeCertificate(folder_, 90);
  ASSERT_TRUE(server_->Reload().ok());
  EXPECT_GT(*server_->certificate_expiry(), first + absl::Hours(24 * 88));
  Client after(address());
  ASSERT_TRUE(after.StartTls());
  EXPECT_GT(after.DaysOfCertificate(), 88);
  // The earlier connection stays open.
  ASSERT_TRUE(before.Send("GET /b HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(before.ReadAnswer(), EndsWith("/b"));
  // Half of a renewal changes nothing.
  fs::remove(options_.tls->key);
  EXPECT_TRUE(absl::IsNotFound(server_->Reload()));
  EXPECT_THAT(Get(address(), "/c", "", /*tls=*/true), EndsWith("/c"));
}

TEST_F(ServerTest, NamesWhatKeepsItFromServing) {
  for (const char* address : {"", "9464", "127.0.0.1", "127.0.0.1:http"}) {
    options_.address = address;
    EXPECT_TRUE(absl::IsInvalidArgument(Server::Open(options_).status()));
  }
  options_.address = "127.0.0.1:0";
  Serve();
  options_.address = address();
  const absl::Status taken = Server::Open(options_).status();
  EXPECT_TRUE(absl::IsUnavailable(taken));
  EXPECT_THAT(std::string(taken.message()), HasSubstr(address()));
  options_.address = "127.0.0.1:0";
  options_.token_file = folder_ / "nowhere";
  EXPECT_TRUE(absl::IsNotFound(Server::Open(options_).status()));
  options_.token_file.clear();
  options_.tls = {folder_ / "no.pem", folder_ / "no.key"};
  EXPECT_TRUE(absl::IsNotFound(Server::Open(options_).status()));
  options_.tls = MakeCertificate(folder_, 1);
  fs::permissions(options_.tls->key, fs::perms::others_read,
                  fs::perm_options::add);
  EXPECT_THAT(std::string(Server::Open(options_).status().message()),
              HasSubstr("chmod 600 " + options_.tls->key.string()));
}

TEST_F(ServerTest, FiftyScrapersAreAnsweredDespiteClientsThatHang) {
  options_.tls = MakeCertificate(folder_, 1);
  options_.max_connections = 200;
  // No answer depends on giving up the clients that hang.
  options_.deadlines.request = absl::Hours(1);
  Serve();
  std::deque<Client> hanging;
  for (int i = 0; i < 50; ++i) {
    hanging.emplace_back(address());  // says nothing
    hanging.emplace_back(address());
    hanging.back().Send("\x16\x03\x01\x02");  // stops in the handshake
  }
  std::atomic<int> answered = 0;
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 50; ++i) {
    scrapers.emplace_back([&] {
      const std::string answer = Get(address(), "/m", "", /*tls=*/true);
      if (answer.ends_with("you asked for /m")) ++answered;
    });
  }
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(answered, 50);
}

TEST_F(ServerTest, StrangersThatSendHalfARequestKeepNoOneOut) {
  options_.token_file = WriteToken(kToken);
  options_.max_connections = 3;
  options_.deadlines.request = absl::Hours(1);
  absl::Notification begun, go_on;
  Serve([&](const Request& request) {
    if (request.target == "/slow") {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return Response{.body = "you asked for " + request.target};
  });
  const std::string known = "Authorization: Bearer " + kToken + "\r\n";
  Client slow(address());
  ASSERT_TRUE(slow.Send("GET /slow HTTP/1.1\r\n" + known + "\r\n"));
  begun.WaitForNotification();
  std::deque<Client> strangers;
  for (int i = 0; i < 8; ++i) {
    strangers.emplace_back(address());
    strangers.back().Send("GET /");
    EXPECT_THAT(Get(address(), "/new", known), EndsWith("/new"));
  }
  EXPECT_TRUE(strangers.front().IsClosed());
  // A request that is being answered keeps its place.
  go_on.Notify();
  EXPECT_THAT(slow.ReadAnswer(), EndsWith("/slow"));
  // Without the token a connection ends with its first answer.
  Client stranger(address());
  ASSERT_TRUE(stranger.Send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(stranger.ReadAll(), StartsWith("HTTP/1.1 401 "));
}

TEST_F(ServerTest, OneAddressTakesNoPlacesOfOthers) {
  options_.max_connections = 4;
  options_.max_of_client = 2;
  Serve();
  Client other(address(), INADDR_LOOPBACK + 1);
  if (!other.connected()) GTEST_SKIP() << "one loopback address (macOS)";
  ASSERT_TRUE(other.Send("GET /"));
  std::deque<Client> silent;
  for (int i = 0; i < 8; ++i) silent.emplace_back(address());
  EXPECT_TRUE(silent.front().IsClosed());
  ASSERT_TRUE(other.Send("other HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(other.ReadAnswer(), EndsWith("/other"));
}

TEST_F(ServerTest, ASocketsClientsAreNotOneAddress) {
  options_.address = "unix:" + (folder_ / "socket").string();
  options_.max_of_client = 1;
  Serve();
  Client first(address()), second(address());
  for (Client* client : {&second, &first}) {
    ASSERT_TRUE(client->Send("GET /here HTTP/1.1\r\n\r\n"));
    EXPECT_THAT(client->ReadAnswer(), EndsWith("/here"));
  }
}

TEST_F(ServerTest, EndsAtOnceWhileClientsHang) {
  options_.tls = MakeCertificate(folder_, 1);
  // An end that waited for any of them would wait for an hour.
  options_.deadlines.request = options_.deadlines.response = absl::Hours(1);
  Serve([](const Request&) {
    return Response{.body = std::string(64 << 20, 'x')};
  });
  Client silent(address()), half(address()), reads_nothing(address());
  half.Send("\x16\x03\x01\x02");
  ASSERT_TRUE(reads_nothing.StartTls());
  ASSERT_TRUE(reads_nothing.Send("GET / HTTP/1.1\r\n\r\n"));
  absl::SleepFor(absl::Milliseconds(200));
  const absl::Time start = absl::Now();
  server_.reset();
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  EXPECT_TRUE(silent.IsClosed());
}

TEST_F(ServerTest, RequestsWaitInABoundedQueue) {
  options_.handlers = 1;
  options_.max_waiting = 2;
  absl::Notification begun, go_on;
  Serve([&](const Request& request) {
    if (request.target == "/slow") {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return Response{.body = "done"};
  });
  Client slow(address()), one(address()), other(address());
  slow.Send("GET /slow HTTP/1.1\r\n\r\n");
  begun.WaitForNotification();
  one.Send("GET / HTTP/1.1\r\n\r\n");
  other.Send("GET / HTTP/1.1\r\n\r\n");
  // The last client is refused, and no other is answered yet.
  pollfd answered[] = {{one.fd(), POLLIN, 0}, {other.fd(), POLLIN, 0}};
  ASSERT_EQ(poll(answered, 2, 60'000), 1);
  Client& refused = answered[0].revents != 0 ? one : other;
  Client& waiting = answered[0].revents != 0 ? other : one;
  const std::string answer = refused.ReadAnswer();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n"));
  go_on.Notify();
  EXPECT_THAT(slow.ReadAnswer(), EndsWith("done"));
  EXPECT_THAT(waiting.ReadAnswer(), EndsWith("done"));
}

TEST_F(ServerTest, AnExceptionEndsOneRequest) {
  Serve([](const Request& request) -> Response {
    if (request.target == "/bad") throw std::runtime_error("private data");
    return {.body = "good"};
  });
  const std::string answer = Get(address(), "/bad");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(answer, Not(HasSubstr("private")));
  EXPECT_THAT(log(), HasSubstr("/bad"));
  EXPECT_THAT(log(), Not(HasSubstr("private")));
  EXPECT_THAT(Get(address(), "/"), EndsWith("good"));
}

TEST_F(ServerTest, GivesItsDescriptorsBack) {
  Serve();
  const auto open = [] {
    const int fd = dup(0);
    close(fd);
    return fd;
  };
  ASSERT_THAT(Get(address(), "/"), Not(IsEmpty()));
  const int before = open();
  for (int i = 0; i < 50; ++i) Get(address(), "/");
  server_.reset();
  EXPECT_LE(open(), before);
}

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

TEST_F(ConnectionTest, StaysOpenAfterAnAnswer) {
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
  options_.deadlines.request = absl::Milliseconds(200);
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

absl::StatusOr<std::string> Read(const std::string& text) {
  const fs::path path = FreshFolder("token") / "token";
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms::owner_read | fs::perms::group_read);
  return ReadTokenFile(path);
}

TEST(ReadTokenFile, TakesOneLine) {
  const std::string token(limits::kLeastTokenBytes, 'x');
  for (const char* end : {"", "\n", "\r\n"}) {
    const auto read = Read(token + end);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, token);
  }
  EXPECT_TRUE(Read(std::string(limits::kTokenBytes, 'x') + "\r\n").ok());
  EXPECT_TRUE(Read("AZaz09-._~+/aaaa==").ok());
}

TEST(ReadTokenFile, RefusesWhatIsNoTokenWithoutQuotingIt) {
  const std::string secret(limits::kLeastTokenBytes, 'x');
  for (const std::string& text :
       {std::string(), secret.substr(1), secret + "\n" + secret,
        secret + " " + secret, "\xc3\xa4" + secret, secret + '\0',
        std::string(limits::kTokenBytes + 1, 'x')}) {
    const absl::Status status = Read(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("openssl rand -hex 32"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("xxxx")));
  }
}

TEST(HasToken, IsTrueForThatTokenAlone) {
  const std::string token = "0123456789abcdef";
  EXPECT_TRUE(HasToken("Bearer " + token, token));
  EXPECT_TRUE(HasToken("bearer " + token, token));
  for (const std::string& wrong : std::vector<std::string>{
           "", "Bearer", "Bearer ", token, "Bearer " + token + "0",
           "Bearer " + token.substr(1), "Bearer  " + token,
           "Bearer " + token + " ", "Basic " + token,
           "Bearer 0123456789ABCDEF"}) {
    EXPECT_FALSE(HasToken(wrong, token)) << wrong;
  }
}

}  // namespace
}  // namespace mpsd::http
