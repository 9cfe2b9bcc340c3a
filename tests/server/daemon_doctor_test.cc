// SPDX-License-Identifier: Apache-2.0
// The doctor of the whole daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "grpcpp/grpcpp.h"
#include "mpsd/v1/runbook.grpc.pb.h"
#include "server/daemon.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;

class DaemonDoctorTest : public testing::Test {
 protected:
  DaemonDoctorTest()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") / ("mpsd-doc-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "models");
    config_.state_dir = folder_ / "state";
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.metrics_address.clear();
    config_.log_level = "error";
    config_.model_roots = {"/", folder_ / "models"};
    config_.environment = {{"OMP_NUM_THREADS", "3"}};
  }
  ~DaemonDoctorTest() override { fs::remove_all(folder_); }

  v1::Diagnosis Diagnose(const v1::DiagnoseRequest& request = {}) {
    const auto stub = v1::RunbookService::NewStub(
        grpc::CreateChannel("unix:" + config_.SocketPath().string(),
                            grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::Diagnosis diagnosis;
    const grpc::Status status = stub->Diagnose(&context, request, &diagnosis);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return diagnosis;
  }

  const fs::path folder_;
  Config config_;
};

TEST_F(DaemonDoctorTest, LooksAtTheFoldersTheWorkerAndTheEnvironment) {
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const v1::Diagnosis diagnosis = Diagnose();
  EXPECT_EQ(diagnosis.worker().end(), v1::WorkerGates::END_DONE);
  EXPECT_EQ(diagnosis.disk().folder(), config_.state_dir.string());
  std::set<std::string> folders;
  for (const v1::MountFacts& mount : diagnosis.mounts()) {
    folders.insert(mount.what() + " " + mount.folder());
  }
  EXPECT_TRUE(folders.contains("state " + config_.state_dir.string()));
  EXPECT_TRUE(folders.contains("models " + (folder_ / "models").string()));
  EXPECT_FALSE(folders.contains("models /"));
  bool found = false;
  for (const v1::EnvironmentVariable& variable : diagnosis.environment()) {
    if (variable.name() != "OMP_NUM_THREADS") continue;
    found = true;
    // [environment] of mpsd.toml is for workers.
    EXPECT_EQ(variable.expected(), "3");
    EXPECT_EQ(variable.worker(), "3");
    EXPECT_FALSE(variable.differs());
  }
  EXPECT_TRUE(found);
}

TEST_F(DaemonDoctorTest, TellsOfASelftestThatIsOff) {
  config_.skip_selftest = true;
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_EQ(Diagnose().selftest().state(), v1::SelftestFacts::STATE_SKIPPED);
}

}  // namespace
}  // namespace mpsd
