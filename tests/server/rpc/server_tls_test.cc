// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/fake_tokens.h"
#include "tests/server/rpc/served.h"
#include "tests/server/tls/test_pki.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(1);

// The real server with a port over TLS.
class ServerTlsTest : public testing::Test {
 protected:
  ServerTlsTest() {
    tokens_.Put("good", "eve", access::Role::kViewer);
    options_.addresses = {"127.0.0.1:0"};
    options_.callers.tokens = &tokens_;
    options_.callers.roles.viewers = {"guest"};
    options_.tls = {pki_.Server(), folder_ / "served"};
  }

  void Start() {
    server_ = std::make_unique<RpcServer>(options_, manager_, manager_, blobs_,
                                          SomeFacts(folder_));
    const absl::Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }
  std::string Fault() {
    RpcServer server(options_, manager_, manager_, blobs_, {});
    return std::string(server.Start().message());
  }

  // `client`: a certificate to show; without files none.
  std::shared_ptr<grpc::Channel> Connect(const tls::ServerFiles& client = {},
                                         const fs::path& authority = {}) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs =
        tls::Content(authority.empty() ? pki_.authority() : authority);
    if (!client.key.empty()) {
      options.pem_private_key = tls::Content(client.key);
      options.pem_cert_chain = tls::Content(client.certificate);
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const std::string& address = server_->addresses().front();
    return grpc::CreateCustomChannel(
        "localhost" + address.substr(address.rfind(':')),
        grpc::SslCredentials(options), arguments);
  }
  static grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel,
                          const std::string& token = "",
                          absl::Duration patience = kPatience) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(patience));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    v1::InfoResponse response;
    return v1::DaemonService::NewStub(channel)->Info(&context, {}, &response);
  }
  // Whether a new connection that trusts this authority alone is served at
  // last: two seconds are promised, and a busy machine needs more.
  bool IsServedSoon(const fs::path& authority) {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (absl::Now() < end) {
      if (Ask(Connect({}, authority), "good", absl::Seconds(10)).ok()) {
        return true;
      }
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  }

  const fs::path folder_ = testing_support::FreshFolder("server_tls");
  const tls::TestPki pki_{folder_ / "pki"};
  FakeTokens tokens_;
  Scratch scratch_;
  FakeManager manager_{scratch_.path() / "jobs"};
  FakeBlobs blobs_;
  Options options_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(ServerTlsTest, ATokenIsServedOverTls) {
  Start();
  EXPECT_TRUE(Ask(Connect(), "good").ok());
  EXPECT_EQ(Ask(Connect(), "bad").error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Ask(Connect()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  ASSERT_TRUE(server_->certificate_expiry().has_value());
  EXPECT_NEAR(absl::ToDoubleHours(*server_->certificate_expiry() - absl::Now()),
              30 * 24, 1);
}

TEST_F(ServerTlsTest, PlainTextIsRefused) {
  Start();
  const auto channel = grpc::CreateChannel(server_->addresses().front(),
                                           grpc::InsecureChannelCredentials());
  EXPECT_EQ(Ask(channel, "good").error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerTlsTest, WhatIsServedIsTheOwnersAlone) {
  const mode_t mask = umask(0);
  Start();
  umask(mask);
  struct stat info;
  ASSERT_EQ(stat(options_.tls->served.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(ServerTlsTest, ARenewedCertificateIsServedAndNoStreamIsLost) {
  Start();
  manager_.Put("a", jobs::State::kRunning);
  const auto channel = Connect();
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer good");
  v1::WatchRequest request;
  request.set_id("a");
  auto stream = v1::JobService::NewStub(channel)->Watch(&context, request);
  ASSERT_TRUE(manager_.AwaitSubscribers(1));

  // Another authority, so that clients can tell the certificates apart.
  const tls::TestPki other(folder_ / "other");
  const tls::ServerFiles renewed = other.Server("server", 60);
  EXPECT_FALSE(Ask(Connect({}, other.authority()), "good").ok());
  for (const auto& [from, to] :
       {std::pair{renewed.key, options_.tls->files.key},
        std::pair{renewed.certificate, options_.tls->files.certificate}}) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }
  ASSERT_TRUE(server_->RenewTls().ok());
  EXPECT_NEAR(absl::ToDoubleHours(*server_->certificate_expiry() - absl::Now()),
              60 * 24, 1);
  EXPECT_TRUE(IsServedSoon(other.authority()));
  // The connection that was open before goes on.
  EXPECT_EQ(manager_.subscribers(), 1);
  EXPECT_TRUE(Ask(channel, "good").ok());
  context.TryCancel();
}

TEST_F(ServerTlsTest, ABrokenRenewalChangesNothing) {
  Start();
  const auto expiry = server_->certificate_expiry();
  for (const char* broken : {"", "-----BEGIN CERTIFICATE-----\nMIIB"}) {
    std::ofstream(options_.tls->files.certificate) << broken;
    EXPECT_TRUE(absl::IsInvalidArgument(server_->RenewTls()));
  }
  // A certificate whose key has not been copied yet.
  const tls::TestPki other(folder_ / "other");
  fs::copy_file(other.Server().certificate, options_.tls->files.certificate,
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(std::string(server_->RenewTls().message()),
              HasSubstr("the key is not the one of"));
  absl::SleepFor(absl::Seconds(2));
  EXPECT_TRUE(Ask(Connect(), "good").ok());
  EXPECT_EQ(server_->certificate_expiry(), expiry);
}

TEST_F(ServerTlsTest, AClientsCertificateMakesItNobody) {
  Start();
  EXPECT_EQ(Ask(Connect(pki_.Client("ada", "/CN=ada"))).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ServerTlsTest, FilesThatServeNothingAreNamed) {
  fs::remove(options_.tls->files.key);
  EXPECT_THAT(Fault(), HasSubstr(options_.tls->files.key.string()));
  options_.tls->files = pki_.Server();
  options_.tls->served = folder_ / "no" / "folder";
  EXPECT_THAT(Fault(), HasSubstr("no/folder"));
}

TEST_F(ServerTlsTest, WithoutACertificateAPortIsOfThisMachine) {
  options_.tls.reset();
  for (const char* address : {"0.0.0.0:0", "[::]:0", "mac.local:0"}) {
    options_.addresses = {address};
    EXPECT_THAT(Fault(), HasSubstr("without a certificate")) << address;
  }
  options_.addresses = {"127.0.0.1:0"};
  Start();
  EXPECT_EQ(server_->certificate_expiry(), std::nullopt);
  EXPECT_TRUE(server_->RenewTls().ok());
  const auto channel = grpc::CreateChannel(server_->addresses().front(),
                                           grpc::InsecureChannelCredentials());
  EXPECT_TRUE(Ask(channel, "good").ok());
  EXPECT_FALSE(Ask(channel).ok());
}

}  // namespace
}  // namespace mpsd::rpc
