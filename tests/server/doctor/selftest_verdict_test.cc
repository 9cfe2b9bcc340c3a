// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/selftest_verdict.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/printable.h"

namespace mpsd::doctor {
namespace {

using State = Selftest::State;

class SelftestVerdictTest : public testing::Test {
 protected:
  ~SelftestVerdictTest() override { std::filesystem::remove(path_); }
  Selftest Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadSelftest(path_);
  }
  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      ("verdict-" + std::to_string(getpid()));
};

TEST_F(SelftestVerdictTest, TellsVerdictDeviceAndAge) {
  Read(R"({"passed": true, "summary": "", "identity": {"device": "mps"}})");
  const timespec times[] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  const Selftest passed = ReadSelftest(path_);
  EXPECT_EQ(passed.state, State::kPassed);
  EXPECT_EQ(passed.device, "mps");
  EXPECT_EQ(passed.time, absl::FromUnixSeconds(1'700'000'000));
  const Selftest failed =
      Read(R"({"passed": false, "summary": "1 of 9: bmm\u001b[2J"})");
  EXPECT_EQ(failed.state, State::kFailed);
  EXPECT_EQ(failed.summary, "1 of 9: bmm\\x1b[2J");
}

TEST_F(SelftestVerdictTest, WhatIsNoVerdictTellsNothing) {
  EXPECT_EQ(ReadSelftest("/nonexistent/verdict").state, State::kNotTold);
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"passed\": 1}"),
        std::string("{\"passed\":"), std::string(100'000, '{')}) {
    EXPECT_EQ(Read(text).state, State::kNotTold) << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace mpsd::doctor
