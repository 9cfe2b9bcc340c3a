// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/get_submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

TEST(GetSubmission, AnswersWithTheRequest) {
  FakeManager manager;
  manager.Put("a", jobs::State::kFailed);
  jobs::SubmitRequest kept;
  kept.spec_json = "{\"model\": \"m\"}";
  kept.inputs = {{"t.jsonl", std::string(64, 'a')}};
  kept.priority = 4;
  kept.labels = {{"k", "v"}};
  kept.anyway = kept.held = true;
  kept.after = {"b", "c"};
  kept.owner = "ada";
  kept.idempotency_key = "key";
  kept.round_trip_seconds = 0.25;
  manager.PutRequest("a", kept);
  v1::GetSubmissionRequest request;
  request.set_id("a");
  v1::SubmitRequest answer;
  ASSERT_TRUE(GetSubmission(manager, request, answer).ok());
  EXPECT_EQ(answer.spec_json(), kept.spec_json);
  ASSERT_EQ(answer.inputs_size(), 1);
  EXPECT_EQ(answer.inputs(0).path(), "t.jsonl");
  EXPECT_EQ(answer.inputs(0).sha256(), kept.inputs[0].sha256);
  EXPECT_EQ(answer.priority(), 4);
  EXPECT_EQ(answer.labels().at("k"), "v");
  EXPECT_TRUE(answer.anyway());
  EXPECT_TRUE(answer.held());
  EXPECT_THAT(answer.after(), testing::ElementsAre("b", "c"));
  EXPECT_EQ(answer.kind(), v1::JOB_KIND_TRAINING);
  EXPECT_EQ(answer.owner(), "");
  EXPECT_EQ(answer.idempotency_key(), "");
  // A clone would tell the way of who made this job.
  EXPECT_FALSE(answer.has_round_trip_seconds());
}

TEST(GetSubmission, SaysWhatIsWrong) {
  FakeManager manager;
  manager.Put("old", jobs::State::kFailed);
  const auto code = [&](const std::string& id) {
    v1::GetSubmissionRequest request;
    request.set_id(id);
    v1::SubmitRequest answer;
    return GetSubmission(manager, request, answer).code();
  };
  EXPECT_EQ(code(""), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(std::string(65, 'x')), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("none"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("old"), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace mpsd::rpc
