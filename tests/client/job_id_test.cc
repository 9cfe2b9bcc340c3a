// SPDX-License-Identifier: Apache-2.0
#include "client/job_id.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// Through `cancel`, which prints the id it found and changes the job, and
// `checkpoints`, which looks.
class JobIdTest : public ClientTest {
 protected:
  JobIdTest() {
    AddJob(kId, v1::JOB_STATE_CANCELLED);
    AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  }
};

TEST_F(JobIdTest, AWholeIdAsksNobodyAndAUniqueEndTheDaemon) {
  EXPECT_EQ(RunVerb({"cancel", kId}).code, 0);
  EXPECT_TRUE(data().found.empty());
  EXPECT_TRUE(data().listed.empty());
  for (const char* text : {"0000AA", "0000aa", "00000000AA"}) {
    EXPECT_EQ(RunVerb({"cancel", text}).out,
              "Job 01KAH0000000000000000000AA is CANCELLED.\n");
  }
  EXPECT_EQ(data().found.size(), 3u);
  EXPECT_EQ(data().found[1].id_part(), "0000AA");
  EXPECT_TRUE(data().listed.empty());
}

TEST_F(JobIdTest, NothingOrTooLittleIsNoJob) {
  data().jobs.pop_back();  // one is left, which every text would fit
  for (const char* verb : {"cancel", "checkpoints", "show", "logs", "watch"}) {
    EXPECT_THAT(RunVerb({verb, ""}),
                Fails(2,
                      "mpsctl: the job's id is empty\n"
                      "List the jobs with `mpsctl list`.\n"))
        << verb;
  }
  EXPECT_TRUE(data().cancelled.empty());
  EXPECT_EQ(RunVerb({"cancel", "000BB"}).err,
            "mpsctl: '000BB' is too short for a job's id: give at least 6 "
            "characters\n"
            "List the jobs with `mpsctl list`.\n");
  EXPECT_THAT(RunVerb({"checkpoints", "0BB"}).err,
              StartsWith("mpsctl: '0BB' is too short for a job's id: give at "
                         "least 4 characters\nList the jobs"));
  EXPECT_EQ(RunVerb({"checkpoints", "00BB"}).code, 0);
  EXPECT_EQ(RunVerb({"cancel", "0000BB"}).code, 0);
  EXPECT_EQ(data().cancelled.size(), 1u);
}

TEST_F(JobIdTest, WhatNoIdHasIsRefused) {
  for (const char* text : {"../etc/passwd", "0000%B", "\x1b[2J0000BB",
                           "01KAH0000000000000000000BBB"}) {
    EXPECT_THAT(RunVerb({"cancel", text}),
                Fails(2, AllOf(HasSubstr("is not part of a job's id"),
                               Not(HasSubstr("\x1b")))));
  }
  EXPECT_TRUE(data().found.empty());
}

TEST_F(JobIdTest, AmbiguousBeginningListsTheJobs) {
  EXPECT_THAT(RunVerb({"cancel", "01KAH0"}),
              Fails(2,
                    "mpsctl: '01KAH0' is ambiguous: 2 jobs match\n"
                    "Give more of its id; it may be any of:\n"
                    "  01KAH0000000000000000000BB  CANCELLED  moods\n"
                    "  01KAH0000000000000000000AA  CANCELLED  moods\n"));
  AddJob("01KAH0000000000000000000CC", v1::JOB_STATE_QUEUED);
  data().most_found = 2;
  EXPECT_THAT(RunVerb({"cancel", "01KAH0"}).err,
              AllOf(HasSubstr("is ambiguous: more than 2 jobs match\n"),
                    EndsWith("\n  …\n")));
}

TEST_F(JobIdTest, NoMatch) {
  EXPECT_THAT(RunVerb({"cancel", "ZZZZZZ"}),
              Fails(4,
                    "mpsctl: no job's id begins or ends with 'ZZZZZZ'\n"
                    "List the jobs with `mpsctl list`.\n"));
  Fail("FindJobs", StatusCode::INTERNAL, "disk on fire");
  EXPECT_THAT(RunVerb({"cancel", "0000AA"}),
              Fails(6, HasSubstr("disk on fire")));
  EXPECT_TRUE(data().listed.empty());
}

using JobLabels = google::protobuf::Map<std::string, std::string>;

TEST(JobLabelsTest, Parsed) {
  JobLabels job_labels;
  EXPECT_EQ(JobLabelsText(job_labels), "");
  ASSERT_TRUE(AddJobLabels({"b=2", "a=x=y", "c=", "b=2"}, &job_labels).ok());
  EXPECT_EQ(JobLabelsText(job_labels), "a=x=y, b=2, c=");
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

}  // namespace
}  // namespace mpsd::client
