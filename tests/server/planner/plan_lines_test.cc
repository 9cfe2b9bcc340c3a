// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mpsd::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class PlanLinesTest : public testing::Test {
 protected:
  void ExpectBroken(const std::string& bytes, const std::string& why) {
    PlanLines lines([](const std::string&) {});
    EXPECT_EQ(lines.Take(bytes).code(), absl::StatusCode::kInternal) << bytes;
    EXPECT_THAT(std::string(lines.Result().status().message()), HasSubstr(why));
    EXPECT_EQ(lines.Take("{\"plan\": {}}\n").code(),
              absl::StatusCode::kInternal)
        << "broken is broken";
  }

  std::vector<std::string> stages_;
  PlanLines lines_{
      [this](std::string stage) { stages_.push_back(std::move(stage)); }};
};

TEST_F(PlanLinesTest, TellsStagesAndThePlanInWhateverPartsTheyCome) {
  const std::string said =
      "{\"stage\": \"reading\"}\n{\"stage\": \"tokenizing\"}\n"
      "{\"plan\": {\"verdict\": \"VERDICT_PASS\"}}\n";
  for (const char c : said) {
    EXPECT_FALSE(lines_.done());
    ASSERT_TRUE(lines_.Take(std::string(1, c)).ok());
  }
  EXPECT_TRUE(lines_.done());
  EXPECT_THAT(stages_, ElementsAre("reading", "tokenizing"));
  EXPECT_EQ(*lines_.Result(), R"({"verdict":"VERDICT_PASS"})");
}

TEST_F(PlanLinesTest, AnErrorKeepsItsCodeIfAPlanMayFailByIt) {
  ASSERT_TRUE(lines_
                  .Take("{\"error\": {\"code\": \"INVALID_ARGUMENT\", "
                        "\"message\": \"train.jsonl:3: no text\"}}\n")
                  .ok());
  EXPECT_TRUE(lines_.done());
  EXPECT_EQ(lines_.Result().status(),
            absl::InvalidArgumentError("train.jsonl:3: no text"));
  PlanLines other([](const std::string&) {});
  ASSERT_TRUE(other
                  .Take("{\"error\": {\"code\": \"UNAUTHENTICATED\", "
                        "\"message\": \"log in\"}}\n")
                  .ok());
  EXPECT_EQ(other.Result().status().code(), absl::StatusCode::kInternal);
}

TEST_F(PlanLinesTest, WhatIsSaidIsPrintableAndShort) {
  ASSERT_TRUE(lines_
                  .Take("{\"stage\": \"\\u001b[2J" + std::string(5000, 'x') +
                        "\\nforged\"}\n")
                  .ok());
  ASSERT_EQ(stages_.size(), 1u);
  EXPECT_LE(stages_[0].size(), 4 * limits::kStageBytes);
  EXPECT_THAT(stages_[0], Not(HasSubstr("\x1b")));
  EXPECT_THAT(stages_[0], Not(HasSubstr("\n")));
  ASSERT_TRUE(lines_
                  .Take("{\"error\": {\"code\": \"NOT_FOUND\", \"message\": "
                        "\"\\u001b]0;x\\u0007" +
                        std::string(100'000, 'x') + "\"}}\n")
                  .ok());
  const std::string message(lines_.Result().status().message());
  EXPECT_THAT(message, Not(HasSubstr("\x1b")));
  EXPECT_LE(message.size(), 2 * limits::kMessageBytes);
}

TEST_F(PlanLinesTest, BelievesNothingElse) {
  ExpectBroken("\xff\xfe\n", "no JSON object");
  ExpectBroken("[]\n", "no JSON object");
  ExpectBroken("\n", "no JSON object");
  ExpectBroken(std::string(100'000, '[') + "\n", "no JSON object");
  ExpectBroken("{}\n", "neither a stage nor a plan");
  ExpectBroken("{\"plan\": 7}\n", "neither a stage nor a plan");
  ExpectBroken("{\"stage\": 7}\n", "neither a stage nor a plan");
  ExpectBroken("{\"plan\": {}}\n{\"plan\": {}}\n", "went on after its plan");
  PlanLines lines([](const std::string&) {});
  EXPECT_TRUE(lines.Take("{\"error\": {\"code\": 7}}\n").ok());
  EXPECT_EQ(lines.Result().status().code(), absl::StatusCode::kInternal);
}

TEST_F(PlanLinesTest, ALineAndAnOutputHaveAnEnd) {
  const std::string part(1 << 20, 'x');
  size_t sent = 0;
  while (lines_.Take(part).ok()) sent += part.size();
  EXPECT_EQ(sent, kLineBytes);
  EXPECT_THAT(std::string(lines_.Result().status().message()),
              HasSubstr("said a line of more than"));

  PlanLines many([](const std::string&) {});
  const std::string line =
      "{\"stage\": \"" + std::string((1 << 20) - 14, 'x') + "\"}\n";
  for (sent = 0; many.Take(line).ok();) sent += line.size();
  EXPECT_LE(sent, kOutputBytes);
  EXPECT_GT(sent, kOutputBytes / 2);
}

TEST_F(PlanLinesTest, WithoutALastLineThereIsNoPlan) {
  ASSERT_TRUE(lines_.Take("{\"stage\": \"a\"}\n{\"plan\": {}}").ok());
  EXPECT_FALSE(lines_.done());
  EXPECT_THAT(std::string(lines_.Result().status().message()),
              HasSubstr("ended without a plan"));
}

}  // namespace
}  // namespace mpsd::planner
