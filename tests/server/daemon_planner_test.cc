// SPDX-License-Identifier: Apache-2.0
// Plans at the whole daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/runbook.grpc.pb.h"
#include "server/daemon.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DaemonPlannerTest : public testing::Test {
 protected:
  DaemonPlannerTest()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") / absl::StrCat("mpsd-plan-", getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "tiny");
    std::ofstream(folder_ / "tiny" / "config.json")
        << R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 16,
               "intermediate_size": 32, "num_hidden_layers": 2,
               "num_attention_heads": 2, "num_key_value_heads": 2,
               "max_position_embeddings": 128})";
    std::ofstream(folder_ / "train.jsonl") << "{\"text\": \"a\"}\n";
    config_.state_dir = folder_ / "state";
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.model_roots = config_.data_roots = {folder_};
    config_.metrics_address.clear();
    config_.log_level = "error";
  }
  ~DaemonPlannerTest() override { fs::remove_all(folder_); }

  // Plans a job that the fake worker takes in this mode.
  grpc::Status Plan(const std::string& mode, v1::Plan& plan) const {
    const auto stub = v1::RunbookService::NewStub(
        grpc::CreateChannel("unix:" + config_.SocketPath().string(),
                            grpc::InsecureChannelCredentials()));
    v1::PlanRequest request;
    request.mutable_submission()->set_spec_json(absl::StrCat(
        R"({"name": "fake:)", mode, R"(", "model": ")",
        (folder_ / "tiny").string(), R"(", "dataset": {"train": ")",
        (folder_ / "train.jsonl").string(), R"("}})"));
    grpc::ClientContext context;
    const auto stream = stub->Plan(&context, request);
    v1::PlanEvent event;
    while (stream->Read(&event)) plan = event.plan();
    return stream->Finish();
  }

  const fs::path folder_;
  Config config_;
};

TEST_F(DaemonPlannerTest, PlansWithTheWorkersProgramAndFacts) {
  fs::create_directories(config_.state_dir / "plans" / "left");
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_TRUE(fs::is_empty(config_.state_dir / "plans"))
      << "what a killed daemon left is gone";
  v1::Plan plan;
  const grpc::Status status = Plan("ok", plan);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(plan.verdict(), v1::VERDICT_PASS);
  ASSERT_GT(plan.findings_size(), 0);
  EXPECT_THAT(plan.findings(0).found(), HasSubstr("\"memory_bytes\":"));
  EXPECT_THAT(plan.findings(0).found(), HasSubstr("\"cpu_cores\":"));
  EXPECT_EQ(plan.queue().jobs_ahead(), 0);
  const fs::path jobs = config_.state_dir / "jobs";
  EXPECT_TRUE(!fs::exists(jobs) || fs::is_empty(jobs));
}

TEST_F(DaemonPlannerTest, AProcessThatGoesWrongIsToldInWords) {
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  v1::Plan plan;
  const grpc::Status status = Plan("crash-abort", plan);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(status.error_message(), HasSubstr("crashed with signal 6"));
}

}  // namespace
}  // namespace mpsd
