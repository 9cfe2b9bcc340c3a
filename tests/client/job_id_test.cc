// SPDX-License-Identifier: Apache-2.0
#include "client/job_id.h"

#include <gtest/gtest.h>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// --- job id ------------------------------------------------------------------

// Through `cancel`, which prints the id it found and changes the job, and
// `checkpoints`, which looks.
class JobIdTest : public ClientTest {
 protected:
  JobIdTest() {
    AddJob(kId, v1::JOB_STATE_CANCELLED);
    AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  }
};

TEST_F(JobIdTest, WholeIdAsksNobody) {
  EXPECT_EQ(RunVerb({"cancel", kId}).code, 0);
  EXPECT_TRUE(data().found.empty());
  EXPECT_TRUE(data().listed.empty());
}

TEST_F(JobIdTest, UniqueEndInEitherCaseIsAskedOfTheDaemon) {
  for (const char* text : {"0000AA", "0000aa", "00000000AA"}) {
    const Result result = RunVerb({"cancel", text});
    EXPECT_EQ(result.out, "Job 01KAH0000000000000000000AA is CANCELLED.\n");
  }
  EXPECT_EQ(data().found.size(), 3u);
  EXPECT_EQ(data().found[1].id_part(), "0000AA");
  EXPECT_TRUE(data().listed.empty());
}

TEST_F(JobIdTest, NothingIsNoJob) {
  data().jobs.pop_back();  // one is left, which every text would fit
  for (const char* verb : {"cancel", "checkpoints", "show", "logs", "watch"}) {
    const Result result = RunVerb({verb, ""});
    EXPECT_EQ(result.code, 2) << verb;
    EXPECT_EQ(result.err,
              "mpsctl: the job's id is empty\n"
              "See the jobs there are with `mpsctl list`.\n");
  }
  EXPECT_TRUE(data().cancelled.empty());
}

TEST_F(JobIdTest, TooLittleIsNoJob) {
  data().jobs.pop_back();
  EXPECT_EQ(RunVerb({"cancel", "000BB"}).err,
            "mpsctl: '000BB' is too little of a job's id: give at least 6 "
            "characters\n"
            "See the jobs there are with `mpsctl list`.\n");
  EXPECT_EQ(RunVerb({"checkpoints", "0BB"}).err,
            "mpsctl: '0BB' is too little of a job's id: give at least 4 "
            "characters\n"
            "See the jobs there are with `mpsctl list`.\n");
  EXPECT_EQ(RunVerb({"checkpoints", "00BB"}).code, 0);
  EXPECT_EQ(RunVerb({"cancel", "0000BB"}).code, 0);
  EXPECT_EQ(data().cancelled.size(), 1u);
}

TEST_F(JobIdTest, WhatNoIdHasIsRefused) {
  for (const char* text : {"../etc/passwd", "0000%B", "\x1b[2J0000BB",
                           "01KAH0000000000000000000BBB"}) {
    const Result result = RunVerb({"cancel", text});
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find("is no part of a job's id"), std::string::npos);
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  }
  EXPECT_TRUE(data().found.empty());
}

TEST_F(JobIdTest, AmbiguousBeginningListsTheJobs) {
  const Result result = RunVerb({"cancel", "01KAH0"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "mpsctl: '01KAH0' is ambiguous: 2 jobs match\n"
            "Give more of its id; it may be any of:\n"
            "  01KAH0000000000000000000BB  CANCELLED  moods\n"
            "  01KAH0000000000000000000AA  CANCELLED  moods\n");
}

TEST_F(JobIdTest, MoreThanTheDaemonTellsIsSaid) {
  AddJob("01KAH0000000000000000000CC", v1::JOB_STATE_QUEUED);
  data().most_found = 2;
  const Result result = RunVerb({"cancel", "01KAH0"});
  EXPECT_NE(result.err.find("is ambiguous: more than 2 jobs match\n"),
            std::string::npos)
      << result.err;
  EXPECT_TRUE(result.err.ends_with("\n  …\n")) << result.err;
}

TEST_F(JobIdTest, NoMatch) {
  const Result result = RunVerb({"cancel", "ZZZZZZ"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.err,
            "mpsctl: no job's id begins or ends with 'ZZZZZZ'\n"
            "See the jobs there are with `mpsctl list`.\n");
}

TEST_F(JobIdTest, AFailedCallIsReported) {
  data().fail["FindJobs"] =
      grpc::Status(grpc::StatusCode::INTERNAL, "disk on fire");
  const Result result = RunVerb({"cancel", "0000AA"});
  EXPECT_EQ(result.code, 6);
  EXPECT_NE(result.err.find("disk on fire"), std::string::npos);
  EXPECT_TRUE(data().listed.empty());
}

// --- job labels --------------------------------------------------------------

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
