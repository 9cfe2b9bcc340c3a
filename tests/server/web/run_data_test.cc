// SPDX-License-Identifier: Apache-2.0
#include "server/web/run_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::web {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::IsEmpty;
using testing::StartsWith;

constexpr char kId[] = "01KAH0000000000000000000AA";

class RunDataTest : public testing::Test {
 protected:
  static access::Rights Nobody(bool private_jobs = false) {
    return access::Rights(access::Caller(), private_jobs);
  }
  run_page::RunData Read() {
    auto run = ReadRun(reader_, Nobody(), kId);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
  void WriteLog(const std::string& text) {
    const std::filesystem::path path = reader_.LogPath(kId);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  rpc::FakeManager reader_{testing_support::FreshFolder("run_data")};
};

// A stream that waits for further events would never end.
TEST_F(RunDataTest, HasTheEventsUpToNow) {
  reader_.Put(kId, jobs::State::kRunning);
  for (int step = 1; step <= 3; ++step) reader_.AppendProgress(kId, step);
  const run_page::RunData run = Read();
  EXPECT_EQ(json::parse(run.job)["state"], "JOB_STATE_RUNNING");
  ASSERT_EQ(run.events.size(), 3u);
  EXPECT_EQ(json::parse(run.events[2])["progress"]["step"], "3");
  EXPECT_EQ(run.log, "");
  EXPECT_THAT(run.files, IsEmpty());
  EXPECT_EQ(reader_.subscribers(), 0);
}

TEST_F(RunDataTest, ManyStepsAreThinnedOut) {
  reader_.Put(kId, jobs::State::kSucceeded);
  for (int step = 1; step <= 9000; ++step) reader_.AppendProgress(kId, step);
  const run_page::RunData run = Read();
  EXPECT_LE(run.events.size(), 8000u);
  EXPECT_EQ(run.left_out.steps, 9000 - static_cast<int64_t>(run.events.size()));
  EXPECT_GT(run.left_out.steps, 0);
}

TEST_F(RunDataTest, HasTheEndOfTheLog) {
  reader_.Put(kId, jobs::State::kSucceeded);
  WriteLog("one\ntwo\n");
  EXPECT_EQ(Read().log, "one\ntwo\n");
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += "line " + std::to_string(i) + "\n";
  WriteLog(lines);
  const run_page::RunData run = Read();
  EXPECT_LE(run.log.size(), size_t{64} << 10);
  EXPECT_GT(run.log.size(), size_t{63} << 10);
  EXPECT_THAT(run.log, StartsWith("line "));
  EXPECT_THAT(run.log, EndsWith("line 19999\n"));
  EXPECT_EQ(run.left_out.log_bytes + run.log.size(), lines.size());
}

TEST_F(RunDataTest, AJobThatIsNoneIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(ReadRun(reader_, Nobody(), kId).status()));
  EXPECT_FALSE(ReadRun(reader_, Nobody(), "../../etc/passwd").ok());
}

TEST_F(RunDataTest, APrivateJobHasNoRunForOthers) {
  reader_.Put(kId, jobs::State::kRunning);
  WriteLog("secret\n");
  const absl::Status refused =
      ReadRun(reader_, Nobody(/*private_jobs=*/true), kId).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_TRUE(ReadRun(reader_, Nobody(), kId).ok());
}

}  // namespace
}  // namespace mpsd::web
