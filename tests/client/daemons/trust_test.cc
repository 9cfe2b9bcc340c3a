// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/trust.h"

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "tests/client/certificates.h"
#include "tests/core/closed_port.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::client {
namespace {

class TrustTest : public testing::Test {
 protected:
  static Chain Parse(const std::string& pem) {
    return certificates::ParseCertificates(pem).value();
  }
  static Trust Of(const std::string& pem, const std::string& roots,
                  const std::string& host, absl::Time now = absl::Now()) {
    const Verdict verdict = Judge(Parse(pem), roots, host, now);
    EXPECT_EQ(verdict.why.empty(), verdict.trust == Trust::kTrusted);
    return verdict.trust;
  }

  const fs::path folder_ = FreshFolder("trust");
};

TEST_F(TrustTest, ByAuthorityNameAndDate) {
  const TestAuthority authority(folder_ / "ca"), another(folder_ / "another");
  const Pair pair =
      authority.Issue("DNS:studio.local,DNS:*.example.com,IP:10.0.0.7,IP:::1");
  for (const std::string& chain :
       {pair.certificate, pair.certificate + authority.pem()}) {
    for (const char* host :
         {"studio.local", "STUDIO.local", "a.example.com", "10.0.0.7", "::1"}) {
      EXPECT_EQ(Of(chain, authority.pem(), host), Trust::kTrusted) << host;
    }
    for (const char* host : {"studio", "local", "b.a.example.com", "10.0.0.8",
                             "::2", "daemon", "example.com"}) {
      EXPECT_EQ(Of(chain, authority.pem(), host), Trust::kWrongName) << host;
    }
    EXPECT_EQ(Of(chain, another.pem(), "studio.local"), Trust::kOtherAuthority);
    EXPECT_EQ(Of(chain, another.pem() + authority.pem(), "studio.local"),
              Trust::kTrusted);
    const absl::Duration year = absl::Hours(24 * 365);
    EXPECT_EQ(Of(chain, authority.pem(), "studio.local", absl::Now() + year),
              Trust::kExpired);
    EXPECT_EQ(Of(chain, authority.pem(), "studio.local", absl::Now() - year),
              Trust::kNotYetValid);
  }
}

TEST_F(TrustTest, ASelfSignedCertificateCanBeItsOwnRoot) {
  OpenSsl(folder_,
          "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
          "-subj /CN=x -addext subjectAltName=DNS:studio -days 9 -out self.crt "
          "-keyout self.key");
  const std::string pem = *base::ReadFile(folder_ / "self.crt");
  EXPECT_EQ(Of(pem, pem, "studio"), Trust::kTrusted);
  EXPECT_EQ(Of(pem, pem, "attic"), Trust::kWrongName);
  EXPECT_EQ(Of(pem, TestAuthority(folder_ / "ca").pem(), "studio"),
            Trust::kOtherAuthority);
}

TEST_F(TrustTest, WhatIsNotTrusted) {
  const TestAuthority authority(folder_ / "ca"), twin(folder_ / "twin");
  const Pair pair = authority.Issue("DNS:studio");
  EXPECT_EQ(Of(pair.certificate + twin.pem(), twin.pem(), "studio"),
            Trust::kOtherAuthority)
      << "of the same name";
  const Pair client =
      authority.Issue("DNS:studio\nextendedKeyUsage=clientAuth");
  EXPECT_EQ(Of(client.certificate, authority.pem(), "studio"), Trust::kBroken);
  EXPECT_EQ(Of(authority.pem(), "no PEM", "studio"), Trust::kBroken);
  EXPECT_EQ(Judge(Chain(), std::string("x"), "studio", absl::Now()).trust,
            Trust::kBroken);
}

class SystemRootsTest : public testing::Test {
 protected:
  ~SystemRootsTest() override { unsetenv("SSL_CERT_FILE"); }
};

TEST_F(SystemRootsTest, TheFileThatTheEnvironmentNames) {
  const std::string path =
      testing::TempDir() + "roots-" + std::to_string(getpid()) + ".pem";
  std::ofstream(path) << "roots";
  setenv("SSL_CERT_FILE", path.c_str(), 1);
  EXPECT_EQ(SystemRoots().value(), "roots");
  unlink(path.c_str());
  setenv("SSL_CERT_FILE", "/nowhere/roots.pem", 1);
  EXPECT_EQ(SystemRoots().status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(SystemRoots().status().message().find("/nowhere/roots.pem"),
            std::string::npos);
}

TEST_F(SystemRootsTest, TheSystemsOwn) {
  unsetenv("SSL_CERT_FILE");
  const auto roots = SystemRoots();
  if (!roots.ok()) GTEST_SKIP() << "this machine trusts no authority";
  EXPECT_NE(roots->find("-----BEGIN CERTIFICATE-----"), std::string::npos);
}

TEST(HostPort, NamesAndAddresses) {
  for (const char* text : {"studio.local:7433", "127.0.0.1:1", "[::1]:65535",
                           "a_b-c:80", "STUDIO:7433"}) {
    const auto place = ParseHostPort(text);
    ASSERT_TRUE(place.ok()) << text;
    EXPECT_EQ(place->Text(), text);
  }
  EXPECT_EQ(ParseHostPort("[fe80::2]:7433")->host, "fe80::2");
  EXPECT_EQ(ParseHostPort("studio:07433")->Text(), "studio:7433");
}

TEST(HostPort, AnythingElseIsRefusedWithTheForm) {
  const char* const kBad[] = {
      "",           "studio",       "studio:",
      ":7433",      "studio:0",     "[::1]",
      "studio:-1",  "studio: 1",    "studio:+1",
      "::1:7433",   "[]:1",         "a/b:1",
      "a b:1",      "-a:1",         "a@b:1",
      "a\n:1",      "studio:65536", "studio:99999999999",
      "[studio]:1", "dns:///a:1",   "https://a:1",
      "\x1b[2J\n:1"};
  for (const char* text : kBad) {
    const auto place = ParseHostPort(text);
    EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(place.status().message()),
                AllOf(HasSubstr("expected HOST:PORT, as in studio.local:7433"),
                      Not(HasSubstr("\x1b")), Not(HasSubstr("\n"))));
  }
  EXPECT_FALSE(ParseHostPort(std::string(300, 'a') + ":1").ok());
}

TEST(HostPort, Loopback) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "127.9.9.9",
                           "::1", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"", "localhost.evil.example", "127.0.0.1.evil.example", "127.evil",
        "10.0.0.1", "::2", "::", "0.0.0.0", "studio.local"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

// More than any stall of a busy machine: no test waits that long.
constexpr absl::Duration kLong = absl::Seconds(60);

// A port on which each connection is given to a function.
class Port {
 public:
  explicit Port(std::function<void(int)> serve) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    place_ = {"127.0.0.1", std::to_string(ntohs(address.sin_port))};
    thread_ = std::thread([this, serve = std::move(serve)] {
      while (true) {
        const int peer = accept(listener_, nullptr, nullptr);
        if (peer < 0) return;
        serve(peer);
        close(peer);
      }
    });
  }
  ~Port() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  const HostPort& place() const { return place_; }

 private:
  int listener_;
  HostPort place_;
  std::thread thread_;
};

class ProbeTest : public testing::Test {
 protected:
  ~ProbeTest() override {
    if (server_ != nullptr) server_->Shutdown();
  }
  HostPort Serve(std::shared_ptr<grpc::ServerCredentials> credentials) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    return {"127.0.0.1", std::to_string(port)};
  }

  const fs::path folder_ = FreshFolder("probe");
  v1::DaemonService::Service service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ProbeTest, TheChainOfAServer) {
  const TestAuthority authority(folder_ / "ca");
  const HostPort place =
      Serve(TlsServer(authority.Issue("IP:127.0.0.1"), authority.pem()));
  const Probe probe = ProbeServer(place, kLong);
  ASSERT_EQ(probe.found, Found::kTls) << probe.why;
  ASSERT_EQ(probe.chain.size(), 2);
  EXPECT_EQ(certificates::FactsOf(*probe.chain[1])->subject, "mpsd test CA");
  EXPECT_EQ(Judge(probe.chain, authority.pem(), place.host, absl::Now()).trust,
            Trust::kTrusted);
}

TEST_F(ProbeTest, AServerWithoutTls) {
  const HostPort place = Serve(grpc::InsecureServerCredentials());
  const Probe probe = ProbeServer(place, kLong);
  EXPECT_EQ(probe.found, Found::kNoTls) << probe.why;
  EXPECT_NE(probe.why, "");
}

TEST_F(ProbeTest, AServerOfTls12) {
  const TestAuthority authority(folder_ / "ca");
  const Pair pair = authority.Issue("IP:127.0.0.1");
  std::ofstream(folder_ / "server.pem") << pair.key << pair.certificate;
  // openssl's server answers one connection on a port that the system chooses
  // and prints.
  FILE* server = popen(("cd '" + folder_.string() +
                        "' && exec openssl s_server -accept 127.0.0.1:0 -cert "
                        "server.pem -key server.pem -tls1_2 -naccept 1 2>&1")
                           .c_str(),
                       "r");
  ASSERT_NE(server, nullptr);
  char line[256];
  std::string port;
  while (port.empty() && fgets(line, sizeof line, server) != nullptr) {
    const std::string text(line);
    if (text.starts_with("ACCEPT 127.0.0.1:")) {
      port = text.substr(17, text.find_first_not_of("0123456789", 17) - 17);
    }
  }
  ASSERT_NE(port, "");
  const Probe probe = ProbeServer({"127.0.0.1", port}, kLong);
  EXPECT_EQ(probe.found, Found::kNoTls);
  EXPECT_NE(probe.why, "");
  while (fgets(line, sizeof line, server) != nullptr) {
  }
  pclose(server);
}

TEST_F(ProbeTest, NoListenerOrNoSuchHost) {
  const ClosedPort closed;
  Probe probe = ProbeServer({"127.0.0.1", closed.port()});
  EXPECT_EQ(probe.found, Found::kUnreachable);
  EXPECT_EQ(probe.why, "Connection refused");
  probe = ProbeServer({"no-such-host.invalid", "7433"});
  EXPECT_EQ(probe.found, Found::kUnknownHost);
  EXPECT_NE(probe.why, "");
}

TEST_F(ProbeTest, AServerThatHangsUp) {
  const Port port([](int) {});
  const Probe probe = ProbeServer(port.place(), kLong);
  EXPECT_EQ(probe.found, Found::kNoTls);
  EXPECT_NE(probe.why, "");
}

TEST_F(ProbeTest, AServerThatNeverAnswersAndOneThatDrips) {
  for (const bool drips : {false, true}) {
    const Port port([drips](int peer) {
      // The first bytes of a TLS record, one at a time.
      const char record[] = "\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03";
      for (size_t i = 0;; ++i) {  // until the probe has left
        char byte = record[i % (sizeof record - 1)];
        if (drips && send(peer, &byte, 1, MSG_NOSIGNAL) != 1) return;
        char gone[4096];
        const ssize_t n = recv(peer, gone, sizeof gone, MSG_DONTWAIT);
        if (n == 0) return;
        absl::SleepFor(absl::Milliseconds(20));
      }
    });
    const absl::Time begin = absl::Now();
    const Probe probe = ProbeServer(port.place(), absl::Milliseconds(400));
    // A patience that began anew with each byte would take minutes.
    EXPECT_LT(absl::Now() - begin, kLong);
    EXPECT_EQ(probe.found, Found::kSilent) << probe.why;
  }
}

TEST_F(ProbeTest, GarbageOfEveryLength) {
  for (const size_t size : {1, 5, 100, 20'000, 3'000'000}) {
    const Port port([size](int peer) {
      const std::string garbage(size, '\x16');
      send(peer, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    });
    const Probe probe = ProbeServer(port.place(), kLong);
    EXPECT_EQ(probe.found, Found::kNoTls) << size;
    EXPECT_TRUE(probe.chain.empty());
  }
}

TEST_F(ProbeTest, AMegabyteOfCertificatesIsNotTaken) {
  const TestAuthority authority(folder_ / "ca");
  std::string chain;
  while (chain.size() < (1 << 20)) chain += authority.pem();
  const HostPort place =
      Serve(TlsServer(authority.Issue("IP:127.0.0.1"), chain));
  const Probe probe = ProbeServer(place, kLong);
  EXPECT_EQ(probe.found, Found::kNoTls);
  EXPECT_THAT(probe.why, HasSubstr("excessive message size"));
  EXPECT_TRUE(probe.chain.empty());
}

}  // namespace
}  // namespace mpsd::client
