// SPDX-License-Identifier: Apache-2.0
// OpenAI's API at the whole daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "server/daemon.h"
#include "tests/server/http/certificate.h"
#include "tests/server/http/client.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class DaemonOpenAiTest : public testing::Test {
 protected:
  DaemonOpenAiTest()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") / ("mpsd-oai-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    config_.state_dir = folder_ / "state";
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.metrics_address.clear();
    config_.log_level = "error";
    config_.openai_listen = "127.0.0.1:0";
  }
  ~DaemonOpenAiTest() override { fs::remove_all(folder_); }

  std::string Address() const {
    const auto stub = v1::DaemonService::NewStub(
        grpc::CreateChannel("unix:" + config_.SocketPath().string(),
                            grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::InfoResponse info;
    EXPECT_TRUE(stub->Info(&context, {}, &info).ok());
    return info.openai_address();
  }

  const fs::path folder_;
  Config config_;
};

TEST_F(DaemonOpenAiTest, IsServedToNobodyWithoutAToken) {
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const std::string answer = http::Get(Address(), "/v1/models");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(answer, HasSubstr("invalid_api_key"));
  EXPECT_TRUE(fs::is_directory(config_.state_dir / "files"));
}

TEST_F(DaemonOpenAiTest, IsOffWithoutTheOption) {
  config_.openai_listen.clear();
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_EQ(Address(), "");
}

TEST_F(DaemonOpenAiTest, AnAddressThatIsTakenStopsNoJob) {
  const auto first = Daemon::Start(config_);
  ASSERT_TRUE(first.ok()) << first.status();
  config_.openai_listen = Address();
  config_.state_dir = folder_ / "other";
  const auto second = Daemon::Start(config_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Address(), "");
}

TEST_F(DaemonOpenAiTest, HasTheApisCertificateAndTakesTheNextOne) {
  const http::TlsFiles files = http::MakeCertificate(folder_, 1);
  config_.tls_cert = files.certificate;
  config_.tls_key = files.key;
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_THAT(http::Get(Address(), "/v1/models", "", /*tls=*/true),
              StartsWith("HTTP/1.1 401 "));
  http::MakeCertificate(folder_, 90);
  (*daemon)->RenewCredentials();
  http::Client client(Address());
  ASSERT_TRUE(client.StartTls());
  EXPECT_GT(client.DaysOfCertificate(), 88);
}

}  // namespace
}  // namespace mpsd
