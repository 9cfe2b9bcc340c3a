// SPDX-License-Identifier: Apache-2.0
#include "server/stderr_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/logger.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

namespace mpsd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

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

TEST(StderrSinkTest, APipeNobodyReadsCostsItsLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  spdlog::logger log("mpsd", std::make_shared<StderrSink>(ends[1], kShort));
  log.set_pattern("%v");
  const std::string line(999, 'x');
  for (int i = 0; i < 200; ++i) log.info(line);
  EXPECT_GT(ReadAll(ends[0]).size(), 4096u);
  log.info("again");
  const std::string text = ReadAll(ends[0]);
  EXPECT_THAT(text, HasSubstr(" lines were left out here"));
  EXPECT_THAT(text, testing::EndsWith(")\nagain\n"));
  log.info("and on");
  EXPECT_EQ(ReadAll(ends[0]), "and on\n");
  for (int end : ends) close(end);
}

TEST(StderrSinkTest, NobodyAtTheOtherEndIsNoFault) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  spdlog::logger log("mpsd", std::make_shared<StderrSink>(ends[1], kShort));
  for (int i = 0; i < 10; ++i) log.info("a line");
  close(ends[1]);
}

// As after Ctrl-S.
TEST(StderrSinkTest, ATerminalThatIsStoppedStopsNobody) {
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
  // finds none is left out.
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
