// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

using ResultTest = ClientTest;

TEST_F(ResultTest, ShowsWhatAStudyFound) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  v1::StudyResult& result = daemon_->runbook().study_result;
  result.set_verdict(v1::VERDICT_FAIL);
  result.mutable_smoke()->set_device("mps");
  result.add_findings()->set_name("memory.growth");
  const Result shown = RunVerb({"result", kId});
  EXPECT_EQ(shown.code, 10) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("memory.growth"));
  EXPECT_THAT(shown.out, HasSubstr("Verdict: fail\n"));
  const Result json = RunVerb({"result", kId, "--json"});
  EXPECT_EQ(json.code, 10);
  EXPECT_EQ(nlohmann::json::parse(json.out)["smoke"]["device"], "mps");
}

TEST_F(ResultTest, AJobThatHasNone) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().fail["GetStudyResult"] =
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "it trains");
  const Result shown = RunVerb({"result", kId});
  EXPECT_EQ(shown.code, 2);
  EXPECT_THAT(shown.err, HasSubstr("it trains"));
  EXPECT_EQ(RunVerb({"result", "01NONE"}).code, 4);
}

}  // namespace
}  // namespace mpsd::client
