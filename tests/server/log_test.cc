// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "core/base/file.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class LogTest : public testing::Test {
 protected:
  LogTest() {
    config_.state_dir =
        fs::path(testing::TempDir()) / ("log-" + std::to_string(getpid()));
    fs::create_directories(config_.state_dir);
  }
  ~LogTest() override { fs::remove_all(config_.state_dir); }
  fs::path Folder() const { return config_.state_dir / "log"; }
  std::string Text(const spdlog::logger& log) const {
    EXPECT_TRUE(FlushLog(log, absl::Seconds(30)));
    return *base::ReadFile(Folder() / "mpsd.log");
  }
  // The end of a log waits for its last lines for two seconds; on a disk that
  // is slower they come behind it.
  bool EventuallyHas(const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      const auto file = base::ReadFile(Folder() / "mpsd.log");
      if (file.ok() && file->find(text) != std::string::npos) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }

  Config config_;
};

TEST_F(LogTest, WritesFromTheLevelOn) {
  config_.log_level = "warn";
  auto log = OpenLog(config_);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->info("quiet");
  (*log)->warn("loud {}", 42);
  const std::string text = Text(**log);
  EXPECT_THAT(text, HasSubstr("loud 42\n"));
  EXPECT_THAT(text, Not(HasSubstr("quiet")));
}

TEST_F(LogTest, KeepsOffStderrWhereItIsTold) {
  for (bool on : {true, false}) {
    config_.log_stderr = on;
    auto log = OpenLog(config_);
    ASSERT_TRUE(log.ok()) << log.status();
    testing::internal::CaptureStderr();
    (*log)->info("a line");
    EXPECT_TRUE(FlushLog(**log, absl::Seconds(30)));
    EXPECT_EQ(testing::internal::GetCapturedStderr().empty(), !on);
  }
}

TEST_F(LogTest, RotatesAndKeepsSoMany) {
  config_.log_max_bytes = 1024;
  config_.log_files = 2;
  auto log = OpenLog(config_);
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 100; ++i) (*log)->info(std::string(100, 'x'));
  EXPECT_TRUE(FlushLog(**log, absl::Seconds(30)));
  EXPECT_LE(fs::file_size(Folder() / "mpsd.log"), 1024);
  EXPECT_TRUE(fs::exists(Folder() / "mpsd.2.log"));
  EXPECT_FALSE(fs::exists(Folder() / "mpsd.3.log"));
}

TEST_F(LogTest, BracesInALineAreNoFormat) {
  auto log = OpenLog(config_);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->info(std::string("a spec: {\"model\": {}}"));
  EXPECT_THAT(Text(**log), HasSubstr("a spec: {\"model\": {}}"));
}

TEST_F(LogTest, TheLastLinesAreWrittenAtTheEnd) {
  config_.log_stderr = false;
  auto log = OpenLog(config_);
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 1000; ++i) (*log)->info("line {}", i);
  log->reset();
  EXPECT_TRUE(EventuallyHas("line 999\n"));
}

// As of `mpsd 2> >(sleep 1000)`.
TEST_F(LogTest, AStderrThatNobodyReadsStopsNobody) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int stderr_before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  auto log = OpenLog(config_);
  ASSERT_TRUE(log.ok()) << log.status();
  const std::string line(1000, 'x');
  for (int i = 0; i < 2000; ++i) (*log)->info(line);
  (*log)->error("the end");
  log->reset();
  dup2(stderr_before, STDERR_FILENO);
  EXPECT_TRUE(EventuallyHas("the end\n"));
  for (int fd : {stderr_before, ends[0], ends[1]}) close(fd);
}

TEST_F(LogTest, ALineOfAJobIsOneLine) {
  auto log = OpenLog(config_);
  ASSERT_TRUE(log.ok()) << log.status();
  LineTo(*log, spdlog::level::err)("a job's\n[forged] line\x1b[2J");
  EXPECT_THAT(Text(**log), HasSubstr("a job's\\n[forged] line\\x1b[2J\n"));
}

TEST_F(LogTest, AFolderThatCannotBeIsAnError) {
  std::ofstream(Folder()) << "in the way";
  auto log = OpenLog(config_);
  EXPECT_TRUE(absl::IsUnavailable(log.status())) << log.status();
}

}  // namespace
}  // namespace mpsd
