// SPDX-License-Identifier: Apache-2.0
// What a client may send to kill, starve or deafen a daemon: the whole daemon
// refuses it and lives.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "server/daemon.h"
#include "server/store/database.h"
#include "server/store/sqlite_job_store.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class HostileInput : public testing::Test {
 protected:
  HostileInput()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") /
                ("mpsd-hostile-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
    config_.state_dir = folder_ / "state";
    fs::create_directories(config_.state_dir);
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.metrics_address.clear();
    config_.log_stderr = false;
    config_.model_roots = config_.data_roots = {folder_};
    std::ofstream(folder_ / "train.jsonl") << "{}\n";
    Configure(32);
  }
  ~HostileInput() override {
    daemon_.reset();
    fs::remove_all(folder_);
  }

  void Start() {
    auto daemon = Daemon::Start(config_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    channel_ = grpc::CreateChannel("unix:" + config_.SocketPath().string(),
                                   grpc::InsecureChannelCredentials());
    jobs_ = v1::JobService::NewStub(channel_);
  }
  // The model's config.json.
  void Configure(int64_t layers) {
    std::ofstream(folder_ / "model" / "config.json")
        << R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 16,
               "intermediate_size": 32, "num_attention_heads": 2,
               "num_hidden_layers": )"
        << layers << "}";
  }
  std::string Spec(const std::string& name = "n") const {
    return R"({"name": ")" + name + R"(", "model": ")" +
           (folder_ / "model").string() + R"(", "dataset": {"train": ")" +
           (folder_ / "train.jsonl").string() + R"("}})";
  }

  grpc::Status Submit(const std::string& spec_json,
                      v1::SubmitResponse* response) {
    v1::SubmitRequest request;
    request.set_spec_json(spec_json);
    request.set_anyway(true);  // whatever memory this machine has
    grpc::ClientContext context;
    return jobs_->Submit(&context, request, response);
  }
  void ExpectRefused(
      const std::string& spec_json, const std::string& why,
      grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    v1::SubmitResponse response;
    const grpc::Status status = Submit(spec_json, &response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
    EXPECT_TRUE(Answers());
  }
  bool Answers() {
    grpc::ClientContext context;
    v1::InfoResponse response;
    return v1::DaemonService::NewStub(channel_)
        ->Info(&context, {}, &response)
        .ok();
  }
  // The job once it has ended.
  v1::Job Ended(const std::string& id) {
    v1::WatchRequest request;
    request.set_id(id);
    grpc::ClientContext context;
    auto stream = jobs_->Watch(&context, request);
    for (v1::JobEvent event; stream->Read(&event);) {
      EXPECT_LE(event.ByteSizeLong(), 3 * limits::kMessageBytes);
      EXPECT_TRUE(base::IsPrintable(event.note())) << event.note();
      EXPECT_TRUE(base::IsPrintable(event.warning())) << event.warning();
    }
    EXPECT_TRUE(stream->Finish().ok());
    grpc::ClientContext again;
    v1::GetJobRequest get;
    get.set_id(id);
    v1::Job job;
    EXPECT_TRUE(jobs_->Get(&again, get, &job).ok());
    return job;
  }
  static std::vector<std::string> Lines(const fs::path& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  const fs::path folder_;
  Config config_;
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

TEST_F(HostileInput, NestedBrackets) {
  Start();
  const std::string deeper = "nested deeper than 64 levels";
  ExpectRefused(std::string(100'000, '['), deeper);
  ExpectRefused(std::string(limits::kJsonDepth + 1, '['), deeper);
  ExpectRefused(std::string(limits::kJsonDepth, '['), "syntax error");
  ExpectRefused(std::string(100'000, '[') + std::string(100'000, ']'), deeper);
  std::string objects;
  while (objects.size() < 500'000) objects += "{\"a\":";
  ExpectRefused(objects, deeper);
  ExpectRefused("{\"model\": " + std::string(100'000, '[') +
                    std::string(100'000, ']') + "}",
                deeper);
}

TEST_F(HostileInput, ModelsThatNobodyHas) {
  Start();
  const auto code = grpc::StatusCode::FAILED_PRECONDITION;
  Configure(limits::kModelLayers + 1);
  ExpectRefused(Spec(),
                "num_hidden_layers: expected an integer >= 1 and <= 10000, "
                "found 10001",
                code);
  Configure(8'000'000);
  ExpectRefused(Spec(), "num_hidden_layers", code);
  const fs::path path = folder_ / "model" / "config.json";
  fs::resize_file(path, uintmax_t{3} << 30);  // takes no room
  ExpectRefused(Spec(), "config.json: longer than 16777216 bytes", code);
  Configure(limits::kModelLayers);
  v1::SubmitResponse response;
  EXPECT_TRUE(Submit(Spec(), &response).ok());
}

// Rows of a daemon that had no bounds.
TEST_F(HostileInput, LongNamesOfOldJobsAreListed) {
  constexpr int kJobs = 75;
  {
    auto database = store::Database::Open(config_.state_dir / "mpsd.db");
    ASSERT_TRUE(database.ok()) << database.status();
    store::SqliteJobStore store(**database);
    for (int i = 0; i < kJobs; ++i) {
      jobs::Job job;
      job.id = "01J00000000000000000000" + std::to_string(100 + i);
      job.state = jobs::State::kFailed;
      job.name.assign(1 << 20, 'n');
      job.message.assign(1 << 20, 'm');
      job.spec_json = "{}";
      const jobs::Event first{job.id, 1, absl::Now(),
                              jobs::StateChanged{job.state, ""}};
      ASSERT_TRUE(store.Insert(job, first).ok());
    }
  }
  Start();
  std::set<std::string> ids;
  v1::ListJobsRequest request;
  request.set_page_size(limits::kPageSize);
  do {
    grpc::ClientContext context;  // takes messages of 4 MiB
    v1::ListJobsResponse response;
    const grpc::Status status = jobs_->List(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_GT(response.jobs_size(), 0);
    for (const v1::Job& job : response.jobs()) {
      ids.insert(job.id());
      EXPECT_LE(job.name().size(), limits::kNameBytes);
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(ids.size(), static_cast<size_t>(kJobs));
}

TEST_F(HostileInput, WhatAWorkerRepeatsIsShortAndPrintable) {
  config_.skip_selftest = true;
  Start();
  v1::SubmitResponse response;
  const grpc::Status status = Submit(Spec("fake:hostile"), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::Job job = Ended(response.job().id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.exit_reason(), "Rejected");
  EXPECT_LE(job.message().size(), limits::kMessageBytes);
  EXPECT_GT(job.message().size(), limits::kMessageBytes - 100);
  EXPECT_TRUE(base::IsPrintable(job.message(), base::Breaks::kKeep));
  EXPECT_THAT(job.message(), HasSubstr("\\x1b]0;PWNED\\x07\\x1b[2J\n"));
  EXPECT_EQ(job.metrics().size(), limits::kMetrics);
  ASSERT_EQ(job.warnings_size(), 1);
  EXPECT_THAT(job.warnings(0), HasSubstr("PWNED\\x07\\x1b[2J\\n2026-"));
  const fs::path job_log = config_.state_dir / "jobs" / job.id() / "log";
  daemon_.reset();
  size_t bytes = 0;
  for (const std::string& line : Lines(config_.state_dir / "log/mpsd.log")) {
    EXPECT_TRUE(base::IsPrintable(line)) << line;
    EXPECT_FALSE(line.starts_with("2026-11-22T10:00:00.000Z")) << line;
    bytes += line.size();
  }
  EXPECT_LT(bytes, 4 * limits::kMessageBytes);
  EXPECT_GT(bytes, 0u);
  EXPECT_FALSE(Lines(job_log).empty());
  for (const std::string& line : Lines(job_log)) {
    EXPECT_FALSE(line.starts_with("2026-11-22T10:00:00.000Z")) << line;
    EXPECT_TRUE(base::IsPrintable(line)) << line;
  }
}

}  // namespace
}  // namespace mpsd
