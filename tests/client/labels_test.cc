// SPDX-License-Identifier: Apache-2.0
#include "client/labels.h"

#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using Labels = google::protobuf::Map<std::string, std::string>;

TEST(LabelsTest, Parsed) {
  Labels labels;
  ASSERT_TRUE(AddLabels({"b=2", "a=x=y", "c="}, &labels).ok());
  EXPECT_EQ(LabelsText(labels), "a=x=y, b=2, c=");
}

TEST(LabelsTest, TheSameTwiceIsOnce) {
  Labels labels;
  ASSERT_TRUE(AddLabels({"a=1", "a=1"}, &labels).ok());
  EXPECT_EQ(LabelsText(labels), "a=1");
}

TEST(LabelsTest, ErrorsNameTheLabel) {
  Labels labels;
  EXPECT_EQ(AddLabels({"team"}, &labels).message(),
            "--label 'team': expected NAME=VALUE");
  EXPECT_EQ(AddLabels({"=x"}, &labels).message(),
            "--label '=x': expected NAME=VALUE");
  EXPECT_EQ(AddLabels({"a=1", "a=2"}, &labels).message(),
            "--label a is given twice, as '1' and '2'");
}

TEST(LabelsTest, NoneIsNoText) { EXPECT_EQ(LabelsText(Labels()), ""); }

}  // namespace
}  // namespace mpsd::client
