// SPDX-License-Identifier: Apache-2.0
// The logbook at the whole daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/logbook.grpc.pb.h"
#include "server/daemon.h"
#include "server/store/sqlite_job_store.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::SizeIs;

class DaemonLogbookTest : public testing::Test {
 protected:
  DaemonLogbookTest()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") / ("mpsd-log-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "state");
    config_.state_dir = folder_ / "state";
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.metrics_address.clear();
    config_.log_level = "error";
  }
  ~DaemonLogbookTest() override { fs::remove_all(folder_); }

  v1::SearchRecordsResponse Search() const {
    const auto stub = v1::LogbookService::NewStub(
        grpc::CreateChannel("unix:" + config_.SocketPath().string(),
                            grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::SearchRecordsResponse response;
    const grpc::Status status = stub->SearchRecords(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  const fs::path folder_;
  Config config_;
};

// As after a kill between the end of a job and its record.
TEST_F(DaemonLogbookTest, AnEndWithoutARecordGetsOneAtTheNextStart) {
  {
    auto database = store::Database::Open(config_.state_dir / "mpsd.db");
    ASSERT_TRUE(database.ok()) << database.status();
    store::SqliteJobStore jobs(**database);
    jobs::Job job;
    job.id = "01J00000000000000000000001";
    job.name = "killed";
    job.create_time = absl::Now();
    job.spec_json = "{}";
    job.request_hash = "hash";
    ASSERT_TRUE(jobs.Insert(job, {job.id, 1, job.create_time,
                                  jobs::StateChanged{job.state, ""}})
                    .ok());
    job.state = jobs::State::kCancelled;
    job.end_time = absl::Now();
    ASSERT_TRUE(jobs.Update(job, {}).ok());
  }
  const auto daemon = Daemon::Start(config_);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  v1::SearchRecordsResponse found = Search();
  while (found.records().empty() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(50));
    found = Search();
  }
  ASSERT_THAT(found.records(), SizeIs(1));
  EXPECT_EQ(found.records(0).name(), "killed");
  EXPECT_EQ(found.records(0).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(found.records(0).environment().daemon_version(), MPSD_VERSION);
}

}  // namespace
}  // namespace mpsd
