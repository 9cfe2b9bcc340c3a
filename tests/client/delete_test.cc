// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class DeleteTest : public ClientTest {
 protected:
  DeleteTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kOtherId, v1::JOB_STATE_FAILED);
  }
};

TEST_F(DeleteTest, SeveralJobs) {
  const Result result = RunVerb({"delete", kId, "0000BB"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA is deleted, 1.5 MB given back.\n"
            "Job 01KAH0000000000000000000BB is deleted, 1.5 MB given back.\n");
  EXPECT_TRUE(data().jobs.empty());
}

TEST_F(DeleteTest, Json) {
  const Result result = RunVerb({"delete", kId, "--json"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["job_id"], kId);
  EXPECT_EQ(json["freed_bytes"], 1'500'000);
}

TEST_F(DeleteTest, NeitherNothingNorALittleIsAJob) {
  data().jobs.pop_back();  // one is left
  for (const char* text : {"", "BB", "000BB"}) {
    EXPECT_EQ(RunVerb({"delete", text}).code, 2) << text;
  }
  EXPECT_EQ(RunVerb({"delete", kOtherId, ""}).code, 2);
  EXPECT_EQ(data().jobs.size(), 1u);
}

TEST_F(DeleteTest, OneThatIsGoneDoesNotKeepTheOthers) {
  const Result result = RunVerb({"delete", "01KAH0000000000000000000CC", kId});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(data().jobs.size(), 1u);
}

TEST_F(DeleteTest, WhatTheDaemonRefuses) {
  data().fail["Delete"] = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                       "job X is RUNNING: cancel it");
  const Result result = RunVerb({"delete", kId});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("job X is RUNNING: cancel it"), std::string::npos);
}

TEST_F(DeleteTest, AnOldDaemonDoesNotKnowIt) {
  data().fail["Delete"] = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
  const Result result = RunVerb({"delete", kId});
  EXPECT_EQ(result.code, 6);
  EXPECT_NE(result.err.find("differ in version"), std::string::npos);
}

}  // namespace
}  // namespace mpsd::client
