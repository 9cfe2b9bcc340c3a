// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <iterator>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/api_token.h"
#include "tests/client/certificates.h"
#include "tests/client/client_fixture.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::client {
namespace {

class ConnectionTest : public ClientTest {
 protected:
  grpc::Status Info(Connection& connection) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::InfoResponse response;
    return connection.stub<DaemonStub>().Info(&context, {}, &response);
  }
};

TEST_F(ConnectionTest, ResetForgetsTheBackOff) {
  daemon_->Stop();
  Connection connection({"unix:" + socket_.string(), socket_.string()});
  EXPECT_EQ(Info(connection).error_code(), StatusCode::UNAVAILABLE);
  daemon_->Start();
  connection.Reset();
  EXPECT_TRUE(Info(connection).ok());
}

// ssh is a script that forwards by a link.
class TunnelledConnectionTest : public ConnectionTest {
 protected:
  TunnelledConnectionTest() {
    const std::string program =
        Write("ssh",
              "#!/bin/sh\n"
              "for word; do case $word in /*:/*) places=$word;; esac; done\n"
              "ln -s \"${places#*:}\" \"${places%%:*}\"\n"
              "echo $$ >>" +
                  folder_.string() + "/started\nexec sleep 1000\n");
    fs::permissions(program, fs::perms::owner_all);
    setenv("MPSD_SSH", program.c_str(), 1);
  }
  ~TunnelledConnectionTest() override { unsetenv("MPSD_SSH"); }
  Address BySsh() const {
    return FindAddress("ssh://studio" + socket_.string(), "");
  }
  std::vector<pid_t> Started() const {
    std::ifstream in(folder_ / "started");
    return {std::istream_iterator<pid_t>(in), {}};
  }
};

TEST_F(TunnelledConnectionTest, CallsGoThroughOneTunnel) {
  Connection connection(BySsh());
  EXPECT_EQ(Info(connection).error_code(), StatusCode::UNAVAILABLE);
  ASSERT_TRUE(connection.Connect().ok()) << connection.tunnel_status();
  EXPECT_TRUE(Info(connection).ok());
  Connection other(connection.address());
  EXPECT_TRUE(Info(other).ok());
  connection.Reset();
  EXPECT_TRUE(Info(connection).ok());
  EXPECT_EQ(Started().size(), 1u);
}

TEST_F(TunnelledConnectionTest, ResetReplacesABrokenTunnel) {
  Connection connection(BySsh());
  ASSERT_TRUE(connection.Connect().ok());
  kill(Started()[0], SIGKILL);
  const fs::path local = connection.address().tunnel->target().substr(5);
  while (!fs::exists(local.parent_path() / "code")) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  connection.Reset();
  EXPECT_TRUE(Info(connection).ok());
  EXPECT_EQ(Started().size(), 2u);
  EXPECT_TRUE(connection.tunnel_status().ok());
}

TEST_F(TunnelledConnectionTest, AnInterruptBreaksTheOpeningOff) {
  Write("ssh", "#!/bin/sh\necho $$ >>" + folder_.string() +
                   "/started\nexec sleep 1000\n");
  Connection connection(BySsh(), &interrupt_);
  std::thread raiser([&] {
    while (Started().empty()) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_TRUE(interrupt_.Raise());
  });
  EXPECT_EQ(connection.Connect().code(), absl::StatusCode::kCancelled);
  raiser.join();
}

// A daemon on a port, by TLS unless set otherwise.
class PortTest : public ConnectionTest {
 protected:
  PortTest() : authority_(folder_ / "ca") {
    Serve(TlsServer(authority_.Issue("DNS:localhost")));
  }
  void Serve(std::shared_ptr<grpc::ServerCredentials> credentials) {
    daemon_.reset();
    daemon_ =
        std::make_unique<FakeDaemon>(socket_.string(), std::move(credentials));
  }
  Address At(const std::string& host) const {
    Address address{host + ":" + std::to_string(daemon_->port()), ""};
    address.credentials.tls = true;
    address.credentials.roots_pem = authority_.pem();
    address.credentials.token = "mpsd_token";
    return address;
  }
  // Makes a call of each kind, and of each service.
  void CallAll(Connection& connection) {
    AddJob(kId, v1::JOB_STATE_RUNNING);
    daemon_->Sync();
    EXPECT_TRUE(Info(connection).ok());
    grpc::ClientContext who, watch, logs, upload, blobs, submit;
    v1::WhoAmIResponse whom;
    EXPECT_TRUE(connection.stub<AccessStub>().WhoAmI(&who, {}, &whom).ok());
    v1::WatchRequest watch_request;
    watch_request.set_id(kId);
    v1::JobEvent event;
    EXPECT_FALSE(connection.jobs().Watch(&watch, watch_request)->Read(&event));
    v1::LogsRequest logs_request;
    logs_request.set_id(kId);
    v1::LogChunk chunk;
    EXPECT_FALSE(connection.jobs().Logs(&logs, logs_request)->Read(&chunk));
    v1::UploadResponse uploaded;
    auto writer = connection.artifacts().Upload(&upload, &uploaded);
    writer->WritesDone();
    EXPECT_EQ(writer->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
    v1::FindBlobsResponse found;
    EXPECT_TRUE(connection.artifacts().FindBlobs(&blobs, {}, &found).ok());
    v1::SubmitResponse submitted;
    absl::Notification done;
    const v1::SubmitRequest request;
    connection.jobs().async()->Submit(&submit, &request, &submitted,
                                      [&](grpc::Status) { done.Notify(); });
    done.WaitForNotification();
    daemon_->Sync();
  }

  TestAuthority authority_;
};

TEST_F(PortTest, EveryCallOfEveryStubCarriesTheToken) {
  Connection connection(At("localhost"));
  CallAll(connection);
  connection.Reset();
  CallAll(connection);
  EXPECT_EQ(data().authorizations.size(), 14);
  for (const auto& [path, said] : data().authorizations) {
    EXPECT_EQ(said, "Bearer mpsd_token") << path;
  }
}

TEST_F(PortTest, LoopbackWithoutTlsCarriesItToo) {
  Serve(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  Address address = At("localhost");
  address.credentials.tls = false;
  Connection connection(address);
  CallAll(connection);
  EXPECT_EQ(data().authorizations.size(), 7);
  for (const auto& [path, said] : data().authorizations) {
    EXPECT_EQ(said, "Bearer mpsd_token") << path;
  }
}

TEST_F(PortTest, WithoutATokenNoneIsSent) {
  Address address = At("localhost");
  address.credentials.token.clear();
  Connection connection(address);
  EXPECT_TRUE(Info(connection).ok());
  daemon_->Sync();
  EXPECT_EQ(data().authorizations.begin()->second, "");
}

TEST_F(PortTest, TheTokenReachesNoServerThatIsNotTrusted) {
  const TestAuthority another(folder_ / "another");
  Address wrong_authority = At("localhost");
  wrong_authority.credentials.roots_pem = another.pem();
  // The certificate is for localhost.
  for (const Address& address : {wrong_authority, At("127.0.0.1")}) {
    Connection connection(address);
    EXPECT_EQ(Info(connection).error_code(), StatusCode::UNAVAILABLE);
  }
  Serve(TlsServer(authority_.Issue("DNS:localhost", -1)));
  Connection expired(At("localhost"));
  EXPECT_EQ(Info(expired).error_code(), StatusCode::UNAVAILABLE);
  daemon_->Sync();
  EXPECT_THAT(data().authorizations, IsEmpty());
}

// A host of this machine that is not its loopback; "" where there is none.
std::string OutwardAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) {
      continue;
    }
    char text[INET_ADDRSTRLEN];
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    if (!std::string(text).starts_with("127.")) found = text;
  }
  freeifaddrs(all);
  return found;
}

TEST_F(PortTest, WithoutTlsNothingIsSentToAnotherMachine) {
  const std::string host = OutwardAddress();
  if (host.empty()) GTEST_SKIP() << "this machine has its loopback alone";
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  inet_pton(AF_INET, host.c_str(), &any.sin_addr);
  socklen_t size = sizeof any;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&any), &size);
  Address address{host + ":" + std::to_string(ntohs(any.sin_port)), ""};
  address.credentials.token = "mpsd_token";
  Connection connection(address);
  EXPECT_EQ(Info(connection).error_code(), StatusCode::UNAVAILABLE);
  const int peer = accept(listener, nullptr, nullptr);
  char byte;
  EXPECT_LE(read(peer, &byte, 1), 0);
  close(peer);
  close(listener);
}

class AddressTest : public testing::Test {
 protected:
  AddressTest() {
    unsetenv("MPSD_SERVER");
    unsetenv("MPSD_STATE_DIR");
    setenv("HOME", "/srv/ann", 1);
  }
  ~AddressTest() override {
    unsetenv("MPSD_SERVER");
    unsetenv("MPSD_STATE_DIR");
  }
};

TEST_F(AddressTest, DefaultIsTheSocketInTheDefaultStateFolder) {
  const Address address = FindAddress("", "");
#ifdef __APPLE__
  EXPECT_EQ(address.socket_path,
            "/srv/ann/Library/Application Support/mpsd/mpsd.sock");
#else
  EXPECT_EQ(address.socket_path, "/srv/ann/.local/state/mpsd/mpsd.sock");
#endif
  EXPECT_EQ(address.target, "unix:" + address.socket_path);
}

TEST_F(AddressTest, SocketsByPath) {
  for (const char* server :
       {"/run/mpsd.sock", "unix:/run/mpsd.sock", "unix:///run/mpsd.sock"}) {
    EXPECT_EQ(FindAddress(server, "").target, "unix:/run/mpsd.sock") << server;
    EXPECT_EQ(FindAddress(server, "").socket_path, "/run/mpsd.sock") << server;
  }
  const std::string target = FindAddress("", "state").target;
  EXPECT_EQ(target.substr(0, 6), "unix:/");
  EXPECT_EQ(FindAddress("./state/mpsd.sock", "").target, target);
  EXPECT_EQ(FindAddress("studio:50051", "").socket_path, "");
}

const runbook::Thresholds kOwn;

TEST(OwnGates, RoundTripIsTheMedian) {
  std::vector<absl::Duration> times(5, absl::Milliseconds(2));
  times[0] = times[1] = absl::Seconds(9);
  const v1::Finding near = RoundTripGate(times, kOwn);
  EXPECT_EQ(near.verdict(), v1::VERDICT_PASS);
  EXPECT_DOUBLE_EQ(near.value(), 0.002);
  EXPECT_EQ(near.threshold(), 0.25);
  times[2] = absl::Seconds(1);
  EXPECT_EQ(RoundTripGate(times, kOwn).verdict(), v1::VERDICT_WARN);
}

TEST(OwnGates, ClockSkewLeavesTheWayOut) {
  const absl::Duration trip = absl::Seconds(1);
  // Half a second under way: the clocks are equal.
  const v1::Finding equal =
      ClockGate(kNow - absl::Milliseconds(500), kNow, trip, kOwn);
  EXPECT_EQ(equal.verdict(), v1::VERDICT_PASS);
  EXPECT_EQ(equal.found(), "the clocks agree");
  const v1::Finding ahead =
      ClockGate(kNow + absl::Minutes(5), kNow, absl::ZeroDuration(), kOwn);
  EXPECT_EQ(ahead.verdict(), v1::VERDICT_WARN);
  EXPECT_THAT(ahead.found(), HasSubstr("300.0 s ahead"));
  const v1::Finding behind =
      ClockGate(kNow - absl::Seconds(3), kNow, absl::ZeroDuration(), kOwn);
  EXPECT_EQ(behind.verdict(), v1::VERDICT_WARN);
  EXPECT_THAT(behind.found(), HasSubstr("3.0 s behind"));
}

TEST(OwnGates, CertificateDays) {
  v1::WhoAmIResponse who;
  EXPECT_FALSE(CertificateGate(who, kNow, kOwn).has_value());
  const auto verdict = [&](absl::Duration left) {
    who.mutable_certificate_expire_time()->set_seconds(
        absl::ToUnixSeconds(kNow + left));
    return CertificateGate(who, kNow, kOwn)->verdict();
  };
  EXPECT_EQ(verdict(absl::Hours(24 * 90)), v1::VERDICT_PASS);
  EXPECT_EQ(verdict(absl::Hours(24 * 3)), v1::VERDICT_WARN);
  EXPECT_EQ(verdict(-absl::Hours(1)), v1::VERDICT_FAIL);
}

std::string Token(char secret) {
  return base::ApiToken(std::string(base::kApiTokenSecretBytes, secret));
}

class ChooseDaemonTest : public testing::Test {
 protected:
  ChooseDaemonTest() {
    ClearEnvironment();
    setenv("HOME", "/srv/ann", 1);
    std::ofstream(roots_) << "the system's roots";
    setenv("SSL_CERT_FILE", roots_.c_str(), 1);
  }
  ~ChooseDaemonTest() override {
    ClearEnvironment();
    unsetenv("SSL_CERT_FILE");
  }
  static void ClearEnvironment() {
    for (const char* name :
         {"MPSD_SERVER", "MPSD_CONTEXT", "MPSD_STATE_DIR", "MPSD_TOKEN"}) {
      unsetenv(name);
    }
  }

  void Login(const std::string& name, const std::string& server,
             const std::string& token, bool tls = true) {
    Context context;
    context.name = name;
    context.server = server;
    context.tls = tls;
    context.ca_pem = tls ? "CA of " + name : "";
    context.token = token;
    ASSERT_TRUE(contexts().Save(context).ok());
  }
  ContextStore contexts() const { return ContextStore(folder_ / "contexts"); }
  absl::StatusOr<Address> Choose(const DaemonChoice& choice) const {
    return ChooseDaemon(choice, contexts());
  }
  std::string Target(const DaemonChoice& choice) const {
    const auto address = Choose(choice);
    return address.ok() ? address->target : address.status().ToString();
  }

  const fs::path folder_ = FreshFolder("choose");
  const fs::path roots_ = folder_ / "roots.pem";
};

TEST_F(ChooseDaemonTest, EachSourceGivesWayToTheOneBefore) {
  Login("current", "current:1", Token('a'));
  Login("named", "named:1", Token('b'));
  Login("environment", "environment:1", Token('c'));
#ifndef __APPLE__
  EXPECT_EQ(Target({}), "unix:/srv/ann/.local/state/mpsd/mpsd.sock");
#endif
  ASSERT_TRUE(contexts().Use("current").ok());
  EXPECT_EQ(Target({}), "current:1");
  setenv("MPSD_STATE_DIR", "/state", 1);
  EXPECT_EQ(Target({}), "unix:/state/mpsd.sock");
  setenv("MPSD_CONTEXT", "environment", 1);
  EXPECT_EQ(Target({}), "environment:1");
  setenv("MPSD_SERVER", "other:1", 1);
  EXPECT_EQ(Target({}), "other:1");
  EXPECT_EQ(Target({"", "", "/given"}), "unix:/given/mpsd.sock");
  EXPECT_EQ(Target({"", "named", "/given"}), "named:1");
  EXPECT_EQ(Target({"first:1", "named", "/given"}), "first:1");
}

TEST_F(ChooseDaemonTest, AContextBringsItsCredentials) {
  Login("studio", "studio:7433", Token('a'));
  for (const DaemonChoice& choice :
       {DaemonChoice{"", "studio", ""}, DaemonChoice{"studio:7433", "", ""}}) {
    const auto address = Choose(choice);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_TRUE(address->credentials.tls);
    EXPECT_EQ(address->credentials.roots_pem, "CA of studio");
    EXPECT_EQ(address->credentials.token, Token('a'));
    EXPECT_EQ(address->credentials.context, "studio");
  }
  // Another port is another daemon.
  EXPECT_EQ(Choose({"studio:7434", "", ""})->credentials.token, "");
}

TEST_F(ChooseDaemonTest, OfSeveralContextsAtAServerTheCurrentOne) {
  Login("ann", "studio:7433", Token('a'));
  Login("ben", "studio:7433", Token('b'));
  const absl::Status status = Choose({"studio:7433", "", ""}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ann, ben; name one with --context"));
  ASSERT_TRUE(contexts().Use("ben").ok());
  EXPECT_EQ(Choose({"studio:7433", "", ""})->credentials.token, Token('b'));
}

TEST_F(ChooseDaemonTest, TheEnvironmentsTokenIsForServersWithoutAContext) {
  Login("studio", "studio:7433", Token('a'));
  setenv("MPSD_TOKEN", Token('e').c_str(), 1);
  const auto other = Choose({"ci:7433", "", ""});
  EXPECT_EQ(other->credentials.token, Token('e'));
  EXPECT_TRUE(other->credentials.tls);
  EXPECT_EQ(other->credentials.roots_pem, "the system's roots");
  EXPECT_EQ(Choose({"studio:7433", "", ""})->credentials.token, Token('a'));
  EXPECT_EQ(Choose({"/run/mpsd.sock", "", ""})->credentials.token, "");
  setenv("MPSD_TOKEN", (Token('e') + "\nx: y").c_str(), 1);
  const absl::Status status = Choose({"ci:7433", "", ""}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("MPSD_TOKEN: "));
  EXPECT_EQ(status.message().find(Token('e')), std::string::npos);
}

TEST_F(ChooseDaemonTest, OnlyLoopbackDoesWithoutTls) {
  for (const char* server : {"localhost:1", "127.0.0.1:1", "[::1]:1"}) {
    EXPECT_FALSE(Choose({server, "", ""})->credentials.tls) << server;
  }
  for (const char* server : {"studio:1", "10.0.0.1:1", "[fe80::1]:1"}) {
    EXPECT_TRUE(Choose({server, "", ""})->credentials.tls) << server;
  }
}

TEST_F(ChooseDaemonTest, WhatIsNoAddress) {
  for (const char* server : {"studio", "studio:x", "dns:///studio:1"}) {
    EXPECT_EQ(Choose({server, "", ""}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << server;
  }
  EXPECT_TRUE(absl::IsNotFound(Choose({"", "absent", ""}).status()));
}

TEST_F(ChooseDaemonTest, ABrokenContextStopsOnlyWhoNamesIt) {
  Login("studio", "studio:7433", Token('a'));
  Login("broken", "broken:7433", Token('b'));
  std::ofstream(folder_ / "contexts" / "broken.json") << "{";
  EXPECT_EQ(Target({"studio:7433", "", ""}), "studio:7433");
  EXPECT_THAT(Target({"", "broken", ""}), HasSubstr("broken.json"));
}

TEST_F(ChooseDaemonTest, ACurrentContextThatIsGoneIsNoReasonForAnotherDaemon) {
  Login("studio", "studio:7433", Token('a'));
  ASSERT_TRUE(contexts().Use("studio").ok());
  fs::remove(folder_ / "contexts" / "studio.json");
  EXPECT_TRUE(absl::IsNotFound(Choose({}).status()));
}

}  // namespace
}  // namespace mpsd::client
