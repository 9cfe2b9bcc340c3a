// SPDX-License-Identifier: Apache-2.0
#include "server/http/door.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/sha256.h"
#include "tests/server/http/served.h"

namespace mpsd::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Answers with the method, the target and what came as a body.
class EchoBody final : public Body {
 public:
  EchoBody(std::string start, std::atomic<int>& alive)
      : text_(std::move(start)), alive_(alive) {
    ++alive_;
  }
  ~EchoBody() override { --alive_; }
  std::optional<Response> Take(std::string_view bytes) override {
    taken_ += bytes.size();
    largest_ = std::max(largest_, bytes.size());
    hash_.Update(bytes);
    if (bytes.starts_with("refuse")) {
      return Response{.status = 422, .body = "refused"};
    }
    if (bytes.starts_with("throw")) throw std::runtime_error("a secret");
    if (taken_ < 100) text_.append(bytes);
    return std::nullopt;
  }
  Response End() override {
    return {.body = absl::StrCat(text_, " ", taken_, " bytes, at most ",
                                 largest_ <= (256 << 10) ? "a piece" : "more",
                                 " at once, ", hash_.FinishHex())};
  }

 private:
  std::string text_;
  std::atomic<int>& alive_;
  size_t taken_ = 0, largest_ = 0;
  base::Sha256 hash_;
};

// As many 'y' as the target says after "/content/"; one that ends early after
// "/short/".
class Letters final : public Content {
 public:
  Letters(int64_t size, int64_t there) : size_(size), there_(there) {}
  int64_t size_bytes() const override { return size_; }
  absl::StatusOr<std::string> Read(int64_t most) override {
    if (there_ == 0) return absl::DataLossError("it ends");
    const int64_t bytes = std::min(most, there_);
    there_ -= bytes;
    return std::string(bytes, 'y');
  }

 private:
  const int64_t size_;
  int64_t there_;
};

class DoorTest : public Served, public Door {
 protected:
  void ServeDoor() {
    auto server = Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->Serve(*this);
  }
  // Before the destructor, in which the fixture is no door any more.
  void TearDown() override { server_.reset(); }

  Begun Begin(const Request& request) override {
    if (request.target == "/no") return Response{.status = 401, .body = "no"};
    if (request.target == "/bad") throw std::runtime_error("a secret");
    for (const auto& [start, missing] :
         {std::pair<std::string, int>{"/content/", 0}, {"/short/", 1}}) {
      if (!request.target.starts_with(start)) continue;
      const int64_t size = std::stoll(request.target.substr(start.size()));
      return Response{.content =
                          std::make_shared<Letters>(size, size - missing)};
    }
    const std::string length =
        request.content_length ? absl::StrCat(*request.content_length) : "none";
    return std::make_shared<EchoBody>(
        absl::StrCat(request.method, " ", request.target, " from ",
                     request.peer, ", ", request.content_type, ", ", length,
                     request.has_body ? ", body: " : ", no body: "),
        alive_);
  }

  std::string Send(const std::string& bytes) {
    Client client(address());
    EXPECT_TRUE(client.Send(bytes));
    return client.ReadAll();
  }

  // A body may end after its answer's last byte has been sent.
  bool NoBodyIsLeft() const {
    for (int i = 0; i < 6000 && alive_ > 0; ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    return alive_ == 0;
  }

  std::atomic<int> alive_ = 0;
};

std::string Post(const std::string& lines, const std::string& body) {
  return "POST /p HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + lines +
         "\r\n" + body;
}

TEST_F(DoorTest, EachMethodMayHaveABody) {
  ServeDoor();
  EXPECT_THAT(Send(Post("Content-Type: a/b\r\nContent-Length: 5\r\n", "hello")),
              HasSubstr("POST /p from 127.0.0.1, a/b, 5, body: hello 5 bytes"));
  for (const std::string method : {"GET", "DELETE", "POST"}) {
    EXPECT_THAT(Send(method + " /q HTTP/1.1\r\nConnection: close\r\n\r\n"),
                HasSubstr(method + " /q from 127.0.0.1, , none, no body:"));
  }
  for (const std::string method : {"PUT", "PATCH", "OPTIONS", "CONNECT"}) {
    const std::string answer =
        Send(method + " / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD, POST, DELETE\r\n"));
  }
}

TEST_F(DoorTest, AChunkedBodyIsTheSameBody) {
  ServeDoor();
  const std::string answer =
      Send(Post("Transfer-Encoding: Chunked\r\n",
                "3;ext=\"a\"\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"));
  EXPECT_THAT(answer, HasSubstr("none, body: hello 5 bytes"));
}

TEST_F(DoorTest, TheConnectionGoesOnBehindABody) {
  ServeDoor();
  Client client(address());
  const std::string request =
      "POST /p HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
  // Two at once, and a third one afterwards.
  ASSERT_TRUE(client.Send(request + request));
  EXPECT_THAT(client.ReadAnswer(), HasSubstr("hello 5 bytes"));
  ASSERT_TRUE(client.Send("GET /last HTTP/1.1\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(client.ReadAll(), HasSubstr("GET /last"));
  EXPECT_TRUE(NoBodyIsLeft());
}

TEST_F(DoorTest, ALargeBodyComesInPieces) {
  ServeDoor();
  Client client(address());
  const std::string piece(1 << 20, 'x');
  constexpr int kPieces = 200;
  ASSERT_TRUE(client.Send(
      Post(absl::StrCat("Content-Length: ", kPieces << 20, "\r\n"), "")));
  base::Sha256 hash;
  for (int i = 0; i < kPieces; ++i) {
    ASSERT_TRUE(client.Send(piece));
    hash.Update(piece);
  }
  EXPECT_THAT(
      client.ReadAll(),
      HasSubstr(absl::StrCat(kPieces << 20, " bytes, at most a piece at once, ",
                             hash.FinishHex())));
}

TEST_F(DoorTest, ALargeAnswerComesInPieces) {
  ServeDoor();
  const std::string answer = Get(address(), "/content/3000000");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 3000000\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n" + std::string(3'000'000, 'y')));
  EXPECT_THAT(Get(address(), "/content/0"), EndsWith("\r\n\r\n"));
  const std::string head =
      Send("HEAD /content/3000000 HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 3000000\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  // One that cannot be read to its end is cut, so that nobody takes it for
  // whole.
  EXPECT_THAT(Get(address(), "/short/3000000"),
              EndsWith("\r\n\r\n" + std::string(2'999'999, 'y')));
}

TEST_F(DoorTest, WhoIsRefusedSendsNoBody) {
  ServeDoor();
  Client client(address());
  ASSERT_TRUE(
      client.Send("POST /no HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n"));
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(NoBodyIsLeft());
}

TEST_F(DoorTest, ABodyThatIsRefusedEndsTheConnection) {
  ServeDoor();
  Client client(address());
  // Neither the rest of the body nor what follows is taken for a request. The
  // server may have closed before all of it was sent.
  client.Send("POST /p HTTP/1.1\r\nContent-Length: 900000\r\n\r\n" +
              std::string("refuse") + std::string(300'000, '\n') +
              "GET /smuggled HTTP/1.1\r\n\r\n");
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 422 "));
  EXPECT_THAT(answer, Not(HasSubstr("smuggled")));
}

TEST_F(DoorTest, AnExceptionEndsOneRequest) {
  ServeDoor();
  EXPECT_THAT(Send(Post("Content-Length: 5\r\n", "throw")),
              StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(Get(address(), "/bad"), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(Get(address(), "/good"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(log(), Not(HasSubstr("a secret")));
}

TEST_F(DoorTest, AClientThatWaitsIsToldToGoOn) {
  ServeDoor();
  Client client(address());
  ASSERT_TRUE(
      client.Send(Post("Expect: 100-continue\r\nContent-Length: 5\r\n", "")));
  EXPECT_THAT(client.ReadAnswer(), StartsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  ASSERT_TRUE(client.Send("hello"));
  EXPECT_THAT(client.ReadAll(), HasSubstr("hello 5 bytes"));
  // Who is refused is not told so.
  Client refused(address());
  ASSERT_TRUE(
      refused.Send("POST /no HTTP/1.1\r\nExpect: 100-continue\r\n"
                   "Content-Length: 5\r\n\r\n"));
  EXPECT_THAT(refused.ReadAll(), StartsWith("HTTP/1.1 401 "));
}

// What a server and one before it could understand as different requests.
TEST_F(DoorTest, RequestsOfTwoMeaningsAreRefused) {
  ServeDoor();
  const std::string chunked = "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n";
  for (const char* lines :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length:\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding:\x0b"
        "chunked\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        "Content-Type: a\r\nContent-Type: b\r\n"}) {
    const std::string answer = Send(Post(lines, chunked));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 ")) << lines;
    EXPECT_THAT(answer, Not(HasSubstr("smuggled"))) << lines;
  }
  EXPECT_THAT(
      Send("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked),
      StartsWith("HTTP/1.0 400 "));
  EXPECT_TRUE(NoBodyIsLeft());
}

TEST_F(DoorTest, ChunksThatAreNoneAreRefused) {
  ServeDoor();
  for (const std::string body :
       {"g\r\nhello\r\n", "-5\r\nhello\r\n", "5\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n", "fffffffffffffffff\r\nhello\r\n",
        "\r\nhello\r\n", "0x5\r\nhello\r\n0\r\n\r\n"}) {
    const std::string answer =
        Send(Post("Transfer-Encoding: chunked\r\n", body));
    EXPECT_THAT(answer, Not(HasSubstr("200 OK"))) << body;
  }
  // Neither the line of a chunk nor the trailer may be endless.
  for (const std::string start : {"5;", "0\r\nA: "}) {
    Client client(address());
    ASSERT_TRUE(client.Send(Post("Transfer-Encoding: chunked\r\n", start)));
    client.Send(std::string(300 << 10, 'a'));  // all of it, or up to the end
    EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 400 ")) << start;
  }
  EXPECT_TRUE(NoBodyIsLeft());
}

TEST_F(DoorTest, ABodyThatEndsEarlyIsGone) {
  ServeDoor();
  for (const char* lines :
       {"Content-Length: 50\r\n", "Transfer-Encoding: chunked\r\n"}) {
    {
      Client client(address());
      ASSERT_TRUE(client.Send(Post(lines, "5\r\nhello\r\n")));
      for (int i = 0; i < 6000 && alive_ == 0; ++i) {
        absl::SleepFor(absl::Milliseconds(10));
      }
      EXPECT_EQ(alive_, 1);
    }
    EXPECT_TRUE(NoBodyIsLeft()) << lines;
  }
}

TEST_F(DoorTest, ABodyThatDripsIsEndedInTime) {
  options_.deadlines.body = absl::Milliseconds(300);
  ServeDoor();
  Client client(address());
  const absl::Time start = absl::Now();
  client.Send(Post("Content-Length: 1000000\r\n", ""));
  while (client.Send("a") && absl::Now() < start + absl::Minutes(1)) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  // Without a limit of its own it would be two minutes.
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST_F(DoorTest, ManyBodiesAtOnceDelayNoQuestion) {
  options_.deadlines.body = absl::Minutes(30);
  ServeDoor();
  std::vector<std::unique_ptr<Client>> senders;
  const std::string half(500'000, 'z');
  for (int i = 0; i < 50; ++i) {
    senders.push_back(std::make_unique<Client>(address()));
    ASSERT_TRUE(
        senders.back()->Send(Post("Content-Length: 1000000\r\n", half)));
  }
  // It is answered while no body can come to its end.
  EXPECT_THAT(Get(address(), "/quick"), HasSubstr("GET /quick"));
  for (const auto& sender : senders) ASSERT_TRUE(sender->Send(half));
  for (const auto& sender : senders) {
    EXPECT_THAT(sender->ReadAll(), HasSubstr("1000000 bytes"));
  }
}

TEST_F(DoorTest, AnEndOfTheServerEndsBodiesUnderWay) {
  ServeDoor();
  Client client(address());
  ASSERT_TRUE(client.Send(Post("Content-Length: 50\r\n", "hello")));
  for (int i = 0; i < 6000 && alive_ == 0; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(alive_, 1);
  server_.reset();
  EXPECT_TRUE(NoBodyIsLeft());
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(DoorTest, SpeaksTls) {
  options_.tls = MakeCertificate(folder_, 1);
  ServeDoor();
  Client client(address());
  ASSERT_TRUE(client.StartTls());
  ASSERT_TRUE(client.Send(Post("Content-Length: 5\r\n", "hello")));
  EXPECT_THAT(client.ReadAll(), HasSubstr("hello 5 bytes"));
}

}  // namespace
}  // namespace mpsd::http
