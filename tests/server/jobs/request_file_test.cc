// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/jobs/job_files.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RequestFileTest : public testing::Test {
 protected:
  RequestFileTest() { fs::create_directories(folder_); }
  ~RequestFileTest() override { fs::remove_all(folder_.parent_path()); }

  void Write(const std::string& text) {
    std::ofstream(folder_ / RequestFile::kFile, std::ios::binary) << text;
  }
  absl::StatusOr<SubmitRequest> Again(const SubmitRequest& request) {
    Write(RequestFile::Encode(request));
    return RequestFile::Read(folder_);
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name() / "J";
};

TEST_F(RequestFileTest, KeepsWhatMakesTheJob) {
  SubmitRequest request;
  request.spec_json = "{\"a\": \"\\u0041\u00e9\n\"}";
  request.inputs = {{"a/b \"c\".jsonl", std::string(64, 'a')},
                    {"../z", std::string(64, 'b')}};
  request.priority = -3;
  request.labels = {{"team", "nlp"}, {"", "x"}};
  request.anyway = request.held = true;
  request.after = {"B", "A"};
  request.kind = JobKind::kProfile;
  request.study_json = "{\"steps\": 3}";
  request.round_trip_seconds = 0.0625;
  request.owner = "ada";
  request.idempotency_key = "key";
  const auto read = Again(request);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec_json, request.spec_json);
  ASSERT_EQ(read->inputs.size(), 2u);
  for (const InputFile& input : read->inputs) {
    EXPECT_EQ(input.sha256, std::string(64, input.path == "../z" ? 'b' : 'a'));
  }
  EXPECT_EQ(read->priority, -3);
  EXPECT_EQ(read->labels, request.labels);
  EXPECT_TRUE(read->anyway);
  EXPECT_TRUE(read->held);
  EXPECT_EQ(read->after, request.after);
  EXPECT_EQ(read->kind, JobKind::kProfile);
  EXPECT_EQ(read->study_json, request.study_json);
  EXPECT_EQ(read->round_trip_seconds, 0.0625);
  EXPECT_EQ(read->owner, "");
  EXPECT_EQ(read->idempotency_key, "");
}

TEST_F(RequestFileTest, WhatNobodySaidIsNotThere) {
  SubmitRequest request;
  request.spec_json = "{}";
  EXPECT_EQ(Again(request)->round_trip_seconds, std::nullopt);
  Write(R"({"spec_json": "{}", "round_trip_seconds": "long"})");
  EXPECT_EQ(RequestFile::Read(folder_)->round_trip_seconds, std::nullopt);
}

TEST_F(RequestFileTest, AJobOfAnEarlierReleaseHasNone) {
  const absl::Status status = RequestFile::Read(folder_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("`mpsctl --json show J`"));
}

TEST_F(RequestFileTest, WhatMakesNoSenseIsSaid) {
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(100'000, '['),
        std::string(R"({"spec_json": "{}", "inputs": {"a": 1}})"),
        std::string(R"({"spec_json": "{}", "labels": {"a": []}})"),
        std::string(R"({"spec_json": "{}", "after": [1]})"),
        std::string(R"({"spec_json": 5})")}) {
    Write(bad);
    EXPECT_TRUE(absl::IsDataLoss(RequestFile::Read(folder_).status()))
        << bad.substr(0, 60);
  }
}

}  // namespace
}  // namespace mpsd::jobs
