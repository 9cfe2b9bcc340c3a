// SPDX-License-Identifier: Apache-2.0
#include "server/http/server.h"

#include <poll.h>
#include <sys/stat.h>

#include <atomic>
#include <deque>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/server/http/served.h"

namespace mpsd::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using ServerTest = Served;

const std::string kToken(32, 'a'), kOther(32, 'b');

TEST_F(ServerTest, AnswersNobodyWithoutTheToken) {
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
  // The connection from before goes on.
  ASSERT_TRUE(before.Send("GET /b HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(before.ReadAnswer(), EndsWith("/b"));
  // Half of a renewal changes nothing.
  std::filesystem::remove(options_.tls->key);
  EXPECT_TRUE(absl::IsNotFound(server_->Reload()));
  EXPECT_THAT(Get(address(), "/c", "", /*tls=*/true), EndsWith("/c"));
}

TEST_F(ServerTest, ACertificateThatHasEndedIsLogged) {
  options_.tls = MakeCertificate(folder_, 1);
  Serve();
  EXPECT_EQ(log(), "");
  tls::TestPki(folder_).Run(
      "x509 -in server.crt -signkey server.key -days -1 -out server.crt");
  ASSERT_TRUE(server_->Reload().ok());
  EXPECT_THAT(log(), HasSubstr("server.crt: the certificate ended on 20"));
}

TEST_F(ServerTest, ServesOnAUnixSocketOfItsOwner) {
  options_.address = "unix:" + (folder_ / "socket").string();
  Serve();
  struct stat info;
  ASSERT_EQ(stat((folder_ / "socket").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(Get(address(), "/u"), EndsWith("asked for /u"));
  server_.reset();
  EXPECT_NE(stat((folder_ / "socket").c_str(), &info), 0);
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
  std::filesystem::permissions(options_.tls->key,
                               std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(std::string(Server::Open(options_).status().message()),
              HasSubstr("chmod 600 " + options_.tls->key.string()));
}

TEST_F(ServerTest, FiftyScrapersAreAnsweredBesideClientsThatHang) {
  options_.tls = MakeCertificate(folder_, 1);
  options_.max_connections = 200;
  // Nobody is answered because those that hang have been given up.
  options_.deadlines.handshake = options_.deadlines.request = absl::Hours(1);
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

TEST_F(ServerTest, AFurtherConnectionTakesThePlaceOfTheIdlest) {
  options_.max_connections = 3;
  Serve();
  std::deque<Client> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(address());
    ASSERT_TRUE(clients.back().Send("GET / HTTP/1.1\r\n\r\n"));
    ASSERT_THAT(clients.back().ReadAnswer(), EndsWith("for /"));
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_THAT(Get(address(), "/new"), EndsWith("/new"));
  EXPECT_TRUE(clients[0].IsClosed());
  ASSERT_TRUE(clients[2].Send("GET /old HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(clients[2].ReadAnswer(), EndsWith("/old"));
  // Nobody who is at work loses the place. (A new server: this one may not know
  // yet which of its clients have gone.)
  options_.deadlines.request = absl::Minutes(10);
  Serve();
  std::deque<Client> at_work;
  for (int i = 0; i < 3; ++i) {
    at_work.emplace_back(address());
    at_work.back().Send("GET /");
  }
  EXPECT_TRUE(Client(address()).IsClosed());
  for (Client& client : at_work) {
    ASSERT_TRUE(client.Send("work HTTP/1.1\r\n\r\n"));
    EXPECT_THAT(client.ReadAnswer(), EndsWith("/work"));
  }
}

TEST_F(ServerTest, EndsAtOnceWhileClientsHang) {
  options_.tls = MakeCertificate(folder_, 1);
  // An end that waited for any of them would wait for an hour.
  options_.deadlines.handshake = options_.deadlines.request =
      options_.deadlines.response = absl::Hours(1);
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
  // Whoever comes last is refused, and nobody else is answered yet.
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

}  // namespace
}  // namespace mpsd::http
