// SPDX-License-Identifier: Apache-2.0
#include "core/spec/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

TEST(Findings, NoneIsOk) {
  EXPECT_TRUE(Findings().empty());
  EXPECT_TRUE(Findings().ToStatus("job.json").ok());
}

TEST(Findings, AreOrderedByLine) {
  Findings findings;
  findings.Add(7, "lora.r", "second");
  findings.Add(2, "model", "first");
  findings.Add(7, "", "third");
  const absl::Status status = findings.ToStatus("job.json");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            "job.json:2: model: first\njob.json:7: lora.r: second\n"
            "job.json:7: third");
}

TEST(Findings, ShowTwentyAtMost) {
  Findings findings;
  for (int i = 0; i < 23; ++i) findings.Add(i, "", "x");
  EXPECT_THAT(std::string(findings.ToStatus("f").message()),
              ::testing::EndsWith("f:19: x\n… and 3 more"));
}

}  // namespace
}  // namespace mpsd::spec
