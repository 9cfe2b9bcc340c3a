// SPDX-License-Identifier: Apache-2.0
#include "client/job_id.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// Through `cancel`, which prints the id it found.
class JobIdTest : public ClientTest {
 protected:
  JobIdTest() {
    AddJob(kId, v1::JOB_STATE_CANCELLED);
    AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  }
};

TEST_F(JobIdTest, WholeIdAsksNobody) {
  EXPECT_EQ(RunVerb({"cancel", kId}).code, 0);
  EXPECT_TRUE(data().listed.empty());
}

TEST_F(JobIdTest, UniqueEndInEitherCase) {
  for (const char* text : {"0AA", "0aa", "AA"}) {
    const Result result = RunVerb({"cancel", text});
    EXPECT_EQ(result.out, "Job 01KAH0000000000000000000AA is CANCELLED.\n");
  }
}

TEST_F(JobIdTest, AmbiguousBeginningListsTheJobs) {
  const Result result = RunVerb({"cancel", "01KAH"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "mpsctl: '01KAH' is ambiguous: 2 jobs match\n"
            "Give more of its id; it may be any of:\n"
            "  01KAH0000000000000000000BB  CANCELLED  moods\n"
            "  01KAH0000000000000000000AA  CANCELLED  moods\n");
}

TEST_F(JobIdTest, NoMatch) {
  const Result result = RunVerb({"cancel", "ZZ"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.err,
            "mpsctl: no job's id begins or ends with 'ZZ'\n"
            "See the jobs there are with `mpsctl list`.\n");
}

TEST_F(JobIdTest, LooksAtEveryPage) {
  data().page_size = 1;
  EXPECT_EQ(RunVerb({"cancel", "0AA"}).code, 0);
  EXPECT_EQ(data().listed.size(), 2u);
}

TEST_F(JobIdTest, AFailedListIsReported) {
  data().fail["List"] =
      grpc::Status(grpc::StatusCode::INTERNAL, "disk on fire");
  const Result result = RunVerb({"cancel", "0AA"});
  EXPECT_EQ(result.code, 6);
  EXPECT_NE(result.err.find("disk on fire"), std::string::npos);
}

}  // namespace
}  // namespace mpsd::client
