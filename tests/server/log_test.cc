// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() { config_.state_dir = FreshFolder("log"); }
  // A log with the options of config_.
  std::shared_ptr<spdlog::logger> Open() const {
    auto log = OpenLog(config_);
    EXPECT_TRUE(log.ok()) << log.status();
    return *log;
  }
  fs::path Folder() const { return config_.state_dir / "log"; }
  std::string Text(const spdlog::logger& log) const {
    EXPECT_TRUE(FlushLog(log, absl::Seconds(30)));
    return *base::ReadFile(Folder() / "mpsd.log");
  }

  Config config_;
};

TEST_F(LogTest, RotatesAndKeepsSoMany) {
  config_.log_max_bytes = 1024;
  config_.log_files = 2;
  auto log = Open();
  for (int i = 0; i < 100; ++i) log->info(std::string(100, 'x'));
  EXPECT_TRUE(FlushLog(*log, absl::Seconds(30)));
  EXPECT_LE(fs::file_size(Folder() / "mpsd.log"), 1024);
  EXPECT_TRUE(fs::exists(Folder() / "mpsd.2.log"));
  EXPECT_FALSE(fs::exists(Folder() / "mpsd.3.log"));
}

// As logrotate does, and then SIGHUP.
TEST_F(LogTest, AFileThatWasRenamedIsOpenedAgain) {
  auto log = Open();
  log->info("before");
  EXPECT_THAT(Text(*log), HasSubstr("before\n"));
  fs::rename(Folder() / "mpsd.log", Folder() / "mpsd.log.1");
  ASSERT_TRUE(ReopenLog(*log, config_).ok());
  log->warn("after");
  EXPECT_THAT(Text(*log), testing::MatchesRegex("20[^ ]* warning after\n"));
  EXPECT_THAT(*base::ReadFile(Folder() / "mpsd.log.1"),
              Not(HasSubstr("after")));
  // Without a folder the open file is still written.
  fs::rename(Folder(), config_.state_dir / "moved");
  std::ofstream(Folder()) << "in the way";
  EXPECT_TRUE(absl::IsUnavailable(ReopenLog(*log, config_)));
  log->info("late");
  EXPECT_TRUE(FlushLog(*log, absl::Seconds(30)));
  EXPECT_THAT(*base::ReadFile(config_.state_dir / "moved" / "mpsd.log"),
              HasSubstr("late"));
}

TEST_F(LogTest, ALineOfAJobIsOneLineAndNoFormat) {
  auto log = Open();
  LineTo(log, spdlog::level::err)("a job's\n[forged] line\x1b[2J");
  log->info(std::string("a spec: {\"model\": {}}"));
  EXPECT_THAT(Text(*log), HasSubstr("a spec: {\"model\": {}}"));
  EXPECT_THAT(Text(*log), HasSubstr("a job's\\n[forged] line\\x1b[2J\n"));
}

// Keeps lines; the first waits until it is let go, "bad" throws.
class SlowSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> lines;
  absl::Notification begun, go;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string line(message.payload.data(), message.payload.size());
    if (lines.empty()) {
      begun.Notify();
      go.WaitForNotification();
    }
    if (line == "bad") throw spdlog::spdlog_ex("no space left");
    lines.push_back(line);
  }
  void flush_() override {}
};

class QueuedSinkTest : public testing::Test {
 protected:
  std::shared_ptr<SlowSink> slow_ = std::make_shared<SlowSink>();
  std::shared_ptr<QueuedSink> queued_ = std::make_shared<QueuedSink>(slow_, 3);
  spdlog::logger log_{"mpsd", queued_};
};

TEST_F(QueuedSinkTest, NoCallerWaitsAndTheOldestLinesGo) {
  log_.info("first");
  slow_->begun.WaitForNotification();
  for (int i = 0; i < 10; ++i) log_.info("line {}", i);
  EXPECT_FALSE(queued_->Drain(absl::Milliseconds(1)));
  slow_->go.Notify();
  EXPECT_TRUE(queued_->Drain(absl::Seconds(30)));
  ASSERT_EQ(slow_->lines.size(), 5u);
  EXPECT_THAT(slow_->lines,
              ElementsAre("first", HasSubstr("7 lines were dropped"), "line 7",
                          "line 8", "line 9"));
  // Said once.
  log_.info("later");
  EXPECT_TRUE(queued_->Drain(absl::Seconds(30)));
  EXPECT_EQ(slow_->lines.back(), "later");
  EXPECT_EQ(slow_->lines.size(), 6u);
}

TEST_F(QueuedSinkTest, ASinkThatThrowsEndsNoLog) {
  slow_->go.Notify();
  log_.info("one");
  log_.info("bad");
  log_.info("two");
  EXPECT_TRUE(queued_->Drain(absl::Seconds(30)));
  EXPECT_THAT(slow_->lines, ElementsAre("one", "two"));
}

constexpr absl::Duration kShort = absl::Milliseconds(5);

// What there is to read, without waiting.
std::string ReadAll(int fd) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  std::string text;
  char piece[4096];
  for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;) {
    text.append(piece, n);
  }
  return text;
}

// The same until `end` has come: what goes through a terminal comes when the
// kernel finds the time. What came within a minute where it does not.
std::string ReadUntil(int fd, const std::string& end) {
  std::string text;
  for (int i = 0; i < 6000; ++i) {
    text += ReadAll(fd);
    if (text.find(end) != std::string::npos) break;
    pollfd more{fd, POLLIN, 0};
    poll(&more, 1, /*timeout in ms*/ 10);
  }
  return text;
}

TEST(StderrSinkTest, APipeIsWrittenWhileItIsRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  spdlog::logger log("mpsd", std::make_shared<StderrSink>(ends[1], kShort));
  log.set_pattern("%^%l%$ %v");
  log.info("hello");
  EXPECT_EQ(ReadAll(ends[0]), "info hello\n");
  // Longer than a piece, and than a page.
  log.info(std::string(9000, 'x'));
  EXPECT_EQ(ReadAll(ends[0]), "info " + std::string(9000, 'x') + "\n");
  for (int end : ends) close(end);
}

TEST(StderrSinkTest, AnUnreadPipeLosesItsLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  spdlog::logger log("mpsd", std::make_shared<StderrSink>(ends[1], kShort));
  log.set_pattern("%v");
  const std::string line(999, 'x');
  for (int i = 0; i < 200; ++i) log.info(line);
  EXPECT_GT(ReadAll(ends[0]).size(), 4096u);
  log.info("again");
  const std::string text = ReadAll(ends[0]);
  EXPECT_THAT(text, HasSubstr(" lines were dropped here"));
  EXPECT_THAT(text, testing::EndsWith(")\nagain\n"));
  log.info("and on");
  EXPECT_EQ(ReadAll(ends[0]), "and on\n");
  for (int end : ends) close(end);
}

// As after Ctrl-S.
TEST(StderrSinkTest, AStoppedTerminalBlocksNoCaller) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  spdlog::logger log("mpsd", std::make_shared<StderrSink>(terminal, kShort));
  log.set_pattern("%^%l%$ %v");
  log.error("before");
  EXPECT_THAT(ReadUntil(master, "before"),
              StartsWith("\033[31merror\033[m before"));
  ASSERT_EQ(tcflow(terminal, TCOOFF), 0);
  for (int i = 0; i < 2000; ++i) log.info("while it is stopped");
  ASSERT_EQ(tcflow(terminal, TCOON), 0);
  // There is room again once the kernel has passed on what waits; a line that
  // finds no room is left out.
  std::string text;
  for (int i = 0; i < 6000 && text.find("after") == std::string::npos; ++i) {
    log.info("after");
    pollfd more{master, POLLIN, 0};
    poll(&more, 1, /*timeout in ms*/ 10);
    text += ReadAll(master);
  }
  EXPECT_THAT(text, HasSubstr("after"));
  close(terminal);
  close(master);
}

}  // namespace
}  // namespace mpsd
