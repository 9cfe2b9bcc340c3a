// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sign_off.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

class SignOffTest : public testing::Test {
 protected:
  void Write(const std::string& text) {
    std::ofstream(scratch_.path() / "accepted.json") << text;
  }
  std::optional<SignOff> Read(const std::string& result = "{}") {
    return ReadSignOff(scratch_.path(), result);
  }
  const absl::Time time_ = absl::FromUnixMillis(1'700'000'000'123);
  Scratch scratch_;
};

TEST_F(SignOffTest, IsReadBack) {
  EXPECT_FALSE(Read());
  ASSERT_TRUE(WriteSignOff(scratch_.path(), "{}",
                           {"ada", time_, "reviewed \"it\"\xff", true})
                  .ok());
  const auto back = Read();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->by, "ada");
  EXPECT_EQ(back->time, time_);
  EXPECT_EQ(back->reason, "reviewed \"it\"\xef\xbf\xbd");
  EXPECT_TRUE(back->noted);
}

// A run of the job that writes another result is not signed off.
TEST_F(SignOffTest, HoldsForTheBytesThatWereSignedOff) {
  ASSERT_TRUE(
      WriteSignOff(scratch_.path(), "{}", {"ada", time_, "r", false}).ok());
  EXPECT_TRUE(Read("{}"));
  EXPECT_FALSE(Read("{} "));
}

TEST_F(SignOffTest, ReplacesTheOneBefore) {
  for (const char* reason : {"first", "second"}) {
    ASSERT_TRUE(
        WriteSignOff(scratch_.path(), "{}", {"ada", time_, reason, false})
            .ok());
  }
  EXPECT_EQ(Read()->reason, "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(SignOffTest, AnyOtherFileIsNone) {
  ASSERT_TRUE(
      WriteSignOff(scratch_.path(), "{}", {"ada", time_, "r", false}).ok());
  ASSERT_TRUE(Read());
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"),
        std::string(R"({"by": 7, "time": 7, "reason": 7})"),
        std::string(100'000, '[')}) {
    Write(text);
    EXPECT_FALSE(Read()) << text.substr(0, 50);
  }
  std::filesystem::remove(scratch_.path() / "accepted.json");
  std::filesystem::create_symlink("/dev/zero",
                                  scratch_.path() / "accepted.json");
  EXPECT_FALSE(Read());
  // A link is replaced, not followed.
  ASSERT_TRUE(
      WriteSignOff(scratch_.path(), "{}", {"ada", time_, "r", false}).ok());
  EXPECT_TRUE(Read());
}

TEST_F(SignOffTest, AFolderThatIsGone) {
  EXPECT_FALSE(
      WriteSignOff(scratch_.path() / "none", "{}", {"ada", time_, "r", false})
          .ok());
}

}  // namespace
}  // namespace mpsd::rpc
