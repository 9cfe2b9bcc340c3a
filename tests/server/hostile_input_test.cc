// SPDX-License-Identifier: Apache-2.0
// What a client may send to kill, starve or deafen a daemon: the whole daemon
// refuses it and lives.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "server/store/database.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/daemon_fixture.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class HostileInput : public DaemonFixture {
 protected:
  HostileInput() {
    config_.log_level = Config().log_level;
    config_.log_stderr = false;
  }
  void ExpectRefused(
      const std::string& spec_json, const std::string& why,
      grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    v1::Job job;
    const grpc::Status status = Submit(spec_json, job);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
    Info();  // it answers
  }
  // The job once it has ended.
  v1::Job Ended(const std::string& id) {
    v1::WatchRequest request;
    request.set_id(id);
    grpc::ClientContext context;
    const auto jobs = Jobs();
    auto stream = jobs->Watch(&context, request);
    for (v1::JobEvent event; stream->Read(&event);) {
      EXPECT_LE(event.ByteSizeLong(), 3 * limits::kMessageBytes);
      EXPECT_TRUE(base::IsPrintable(event.note())) << event.note();
      EXPECT_TRUE(base::IsPrintable(event.warning())) << event.warning();
    }
    EXPECT_TRUE(stream->Finish().ok());
    return Get(id);
  }
  static std::vector<std::string> Lines(const fs::path& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(HostileInput, NestedBrackets) {
  auto daemon = StartHere();
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
  auto daemon = StartHere();
  const auto code = grpc::StatusCode::FAILED_PRECONDITION;
  Configure(limits::kModelLayers + 1);
  ExpectRefused(Spec("n"),
                "num_hidden_layers: expected an integer >= 1 and <= 10000, "
                "found 10001",
                code);
  Configure(8'000'000);
  ExpectRefused(Spec("n"), "num_hidden_layers", code);
  const fs::path path = folder_ / "model" / "config.json";
  fs::resize_file(path, uintmax_t{3} << 30);  // takes no room
  ExpectRefused(Spec("n"), "config.json: longer than 16777216 bytes", code);
  Configure(limits::kModelLayers);
  v1::Job job;
  EXPECT_TRUE(Submit(Spec("n"), job).ok());
}

// Rows of a daemon that had no bounds.
TEST_F(HostileInput, LongNamesOfOldJobsAreListed) {
  constexpr int kJobs = 75;
  fs::create_directories(config_.state_dir);
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
  auto daemon = StartHere();
  std::set<std::string> ids;
  const auto stub = Jobs();
  v1::ListJobsRequest request;
  request.set_page_size(limits::kPageSize);
  do {
    grpc::ClientContext context;  // takes messages of 4 MiB
    v1::ListJobsResponse response;
    const grpc::Status status = stub->List(&context, request, &response);
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
  auto daemon = StartHere();
  v1::Job job;
  const grpc::Status status = Submit(Spec("fake:hostile"), job);
  ASSERT_TRUE(status.ok()) << status.error_message();
  job = Ended(job.id());
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
  daemon.reset();
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
