// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/client/certificates.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class ConnectionTest : public ClientTest {
 protected:
  grpc::Status Info(Connection& connection) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::InfoResponse response;
    return connection.daemon().Info(&context, {}, &response);
  }
};

TEST_F(ConnectionTest, ReachesAllServices) {
  Connection connection({"unix:" + socket_.string(), socket_.string()});
  EXPECT_TRUE(Info(connection).ok());
  grpc::ClientContext context;
  v1::FindBlobsResponse blobs;
  EXPECT_TRUE(connection.artifacts().FindBlobs(&context, {}, &blobs).ok());
  grpc::ClientContext other;
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(connection.jobs().List(&other, {}, &jobs).ok());
}

TEST_F(ConnectionTest, ResetForgetsTheBackOff) {
  daemon_->Stop();
  Connection connection({"unix:" + socket_.string(), socket_.string()});
  EXPECT_EQ(Info(connection).error_code(), grpc::StatusCode::UNAVAILABLE);
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
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    setenv("MPSD_SSH", program.c_str(), 1);
  }
  ~TunnelledConnectionTest() override { unsetenv("MPSD_SSH"); }
  Address Behind() const {
    return FindAddress("ssh://studio" + socket_.string(), "");
  }
  std::vector<pid_t> Started() const {
    std::ifstream in(folder_ / "started");
    return {std::istream_iterator<pid_t>(in), {}};
  }
};

TEST_F(TunnelledConnectionTest, CallsGoThroughOneTunnel) {
  Connection connection(Behind());
  EXPECT_EQ(Info(connection).error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(connection.Connect().ok()) << connection.tunnel_status();
  EXPECT_TRUE(Info(connection).ok());
  Connection other(connection.address());
  EXPECT_TRUE(Info(other).ok());
  connection.Reset();
  EXPECT_TRUE(Info(connection).ok());
  EXPECT_EQ(Started().size(), 1u);
}

TEST_F(TunnelledConnectionTest, ResetReplacesABrokenTunnel) {
  Connection connection(Behind());
  ASSERT_TRUE(connection.Connect().ok());
  kill(Started()[0], SIGKILL);
  const std::filesystem::path local =
      connection.address().tunnel->target().substr(5);
  while (!std::filesystem::exists(local.parent_path() / "code")) {
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
  Connection connection(Behind(), &interrupt_);
  std::thread raiser([&] {
    while (Started().empty()) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_TRUE(interrupt_.Raise());
  });
  EXPECT_EQ(connection.Connect().code(), absl::StatusCode::kCancelled);
  raiser.join();
}

// A daemon on a port, by TLS unless told otherwise.
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
    EXPECT_TRUE(connection.access().WhoAmI(&who, {}, &whom).ok());
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
    EXPECT_EQ(writer->Finish().error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
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
    EXPECT_EQ(Info(connection).error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  Serve(TlsServer(authority_.Issue("DNS:localhost", -1)));
  Connection expired(At("localhost"));
  EXPECT_EQ(Info(expired).error_code(), grpc::StatusCode::UNAVAILABLE);
  daemon_->Sync();
  EXPECT_THAT(data().authorizations, testing::IsEmpty());
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
  EXPECT_EQ(Info(connection).error_code(), grpc::StatusCode::UNAVAILABLE);
  const int peer = accept(listener, nullptr, nullptr);
  char byte;
  EXPECT_LE(read(peer, &byte, 1), 0);
  close(peer);
  close(listener);
}

TEST_F(ConnectionTest, DeadlineLiesAhead) {
  grpc::ClientContext context;
  SetDeadline(context);
  EXPECT_GT(context.deadline(), std::chrono::system_clock::now());
}

}  // namespace
}  // namespace mpsd::client
