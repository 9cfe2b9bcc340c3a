// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/log_tail.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mpsd::supervisor {
namespace {

class LogTailTest : public testing::Test {
 protected:
  ~LogTailTest() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  const std::string path_ =
      testing::TempDir() + "/log_tail-" + std::to_string(getpid());
};

TEST_F(LogTailTest, AShortLogIsWhole) {
  Write("one\ntwo\n");
  EXPECT_EQ(ReadLogTail(path_, 0), "one\ntwo\n");
}

TEST_F(LogTailTest, StartsWhereItIsTold) {
  Write("one\ntwo\n");
  EXPECT_EQ(ReadLogTail(path_, 4), "two\n");
  EXPECT_EQ(ReadLogTail(path_, 8), "");
  EXPECT_EQ(ReadLogTail(path_, 99), "");
}

TEST_F(LogTailTest, ALongLogIsCutAtALine) {
  std::string text;
  while (text.size() < 3 * kLogTailBytes) text += "0123456789abcde\n";
  Write(text + "end\n");
  const std::string tail = ReadLogTail(path_, 0);
  EXPECT_LE(tail.size(), kLogTailBytes);
  EXPECT_GT(tail.size(), kLogTailBytes - 20);
  EXPECT_EQ(tail.substr(0, 16), "0123456789abcde\n");
  EXPECT_EQ(tail.substr(tail.size() - 4), "end\n");
}

TEST_F(LogTailTest, OneEndlessLineIsCutAnywhere) {
  Write(std::string(2 * kLogTailBytes, 'x'));
  EXPECT_EQ(ReadLogTail(path_, 0), std::string(kLogTailBytes, 'x'));
}

TEST_F(LogTailTest, BytesBecomeText) {
  Write("\xff\t\x1b[2J\n");
  EXPECT_EQ(ReadLogTail(path_, 0), "\\xff\t\\x1b[2J\n");
}

TEST_F(LogTailTest, NoFileNoTail) {
  EXPECT_EQ(ReadLogTail("/no/such/log", 0), "");
}

}  // namespace
}  // namespace mpsd::supervisor
