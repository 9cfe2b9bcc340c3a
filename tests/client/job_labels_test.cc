// SPDX-License-Identifier: Apache-2.0
#include "client/job_labels.h"

#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using JobLabels = google::protobuf::Map<std::string, std::string>;

TEST(JobLabelsTest, Parsed) {
  JobLabels job_labels;
  ASSERT_TRUE(AddJobLabels({"b=2", "a=x=y", "c="}, &job_labels).ok());
  EXPECT_EQ(JobLabelsText(job_labels), "a=x=y, b=2, c=");
}

TEST(JobLabelsTest, TheSameTwiceIsOnce) {
  JobLabels job_labels;
  ASSERT_TRUE(AddJobLabels({"a=1", "a=1"}, &job_labels).ok());
  EXPECT_EQ(JobLabelsText(job_labels), "a=1");
}

TEST(JobLabelsTest, ErrorsNameTheLabel) {
  JobLabels job_labels;
  EXPECT_EQ(AddJobLabels({"team"}, &job_labels).message(),
            "--label 'team': expected NAME=VALUE");
  EXPECT_EQ(AddJobLabels({"=x"}, &job_labels).message(),
            "--label '=x': expected NAME=VALUE");
  EXPECT_EQ(AddJobLabels({"a=1", "a=2"}, &job_labels).message(),
            "--label a is given twice, as '1' and '2'");
}

TEST(JobLabelsTest, NoneIsNoText) { EXPECT_EQ(JobLabelsText(JobLabels()), ""); }

}  // namespace
}  // namespace mpsd::client
