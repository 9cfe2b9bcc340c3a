// SPDX-License-Identifier: Apache-2.0
// Sweeps at the whole daemon; tests/e2e/sweep_test.py has them run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "mpsd/v1/sweep.grpc.pb.h"
#include "server/daemon.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;

class DaemonSweepsTest : public testing::Test {
 protected:
  DaemonSweepsTest()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") / ("mpsd-swp-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    config_.state_dir = folder_ / "state";
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.metrics_address.clear();
    config_.log_level = "error";
    config_.device_lock.clear();
    config_.skip_selftest = true;
  }
  ~DaemonSweepsTest() override { fs::remove_all(folder_); }

  const fs::path folder_;
  Config config_;
};

TEST_F(DaemonSweepsTest, ServesSweeps) {
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const auto stub = v1::SweepService::NewStub(
      grpc::CreateChannel("unix:" + config_.SocketPath().string(),
                          grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::ListSweepsResponse listed;
  ASSERT_TRUE(stub->ListSweeps(&context, {}, &listed).ok());
  EXPECT_EQ(listed.sweeps_size(), 0);
}

}  // namespace
}  // namespace mpsd
