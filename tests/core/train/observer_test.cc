// SPDX-License-Identifier: Apache-2.0
#include "core/train/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/core/job_folder.h"

namespace mpsd::train {
namespace {

struct Listening : testing_support::RecordingObserver {
  void TellWarning(const std::string& text) override { told.push_back(text); }
  std::vector<std::string> told;
};

TEST(ObserverTest, EachWarningIsToldOnceAndKept) {
  Listening observer;
  for (const char* text : {"a", "b", "a"}) observer.OnWarning(text);
  EXPECT_THAT(observer.told, testing::ElementsAre("a", "b"));
  EXPECT_EQ(observer.warnings(), observer.told);
}

TEST(ObserverTest, WarningsHaveBoundsAndSaySo) {
  Listening observer;
  const std::string longest(Observer::kLongestWarning, 'x');
  observer.OnWarning(longest + "y");
  observer.OnWarning(longest + "z");
  for (int i = 0; i < 1000; ++i) observer.OnWarning(absl::StrCat("text ", i));
  ASSERT_EQ(observer.told.size(), Observer::kMostWarnings);
  EXPECT_EQ(observer.told[0], longest);
  EXPECT_EQ(observer.told[1], "text 0");
  EXPECT_THAT(observer.told.back(), testing::HasSubstr("more warnings"));
  EXPECT_EQ(observer.warnings(), observer.told);
}

}  // namespace
}  // namespace mpsd::train
