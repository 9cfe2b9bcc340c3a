// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/label_values.h"

#include <gtest/gtest.h>

#include "server/jobs/hold.h"
#include "server/jobs/job.h"
#include "server/jobs/pause_gate.h"

namespace mpsd::prometheus {
namespace {

TEST(SnakeCase, HoldsForEveryNameThatIsALabel) {
  EXPECT_EQ(SnakeCase("OutOfMemory"), "out_of_memory");
  EXPECT_EQ(SnakeCase("out_of_memory"), "out_of_memory");
  EXPECT_EQ(SnakeCase("QUEUED"), "queued");
  EXPECT_EQ(SnakeCase(""), "");
  const auto check = [](std::string_view name) {
    const std::string text = SnakeCase(name);
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("__"), std::string::npos) << text;
    EXPECT_FALSE(text.starts_with('_')) << text;
  };
  for (jobs::ExitReason reason : jobs::kAllExitReasons) check(Name(reason));
  for (jobs::PauseReason reason : jobs::kAllPauseReasons) check(Name(reason));
  for (jobs::HoldReason reason : jobs::kAllHoldReasons) check(Name(reason));
  for (jobs::State state : jobs::kAllStates) check(Name(state));
}

TEST(BoundedLabel, IsShortAndPrintable) {
  EXPECT_EQ(BoundedLabel("night run"), "night run");
  EXPECT_EQ(BoundedLabel(std::string(kLabelBytes, 'x')),
            std::string(kLabelBytes, 'x'));
  EXPECT_LE(BoundedLabel(std::string(kLabelBytes + 1, 'x')).size(),
            kLabelBytes);
  EXPECT_TRUE(BoundedLabel(std::string(kLabelBytes + 1, 'x')).ends_with("…"));
  EXPECT_EQ(BoundedLabel("a\nb\xff"), "a\\nb\\xff");
}

TEST(LabelCap, TheFirstKeepTheirNames) {
  LabelCap cap(2);
  EXPECT_EQ(cap.Of("a"), "a");
  EXPECT_EQ(cap.Of("b"), "b");
  EXPECT_EQ(cap.Of("c"), "other");
  EXPECT_EQ(cap.Of("a"), "a");
  EXPECT_EQ(cap.Of("b"), "b");
}

}  // namespace
}  // namespace mpsd::prometheus
