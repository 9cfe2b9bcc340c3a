// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/jobs/job_id.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kA[] = "01KAH0000000000000000000AA";
constexpr char kB[] = "01KAH0000000000000000000BB";

TEST(JobMentions, PathsInJobsFoldersAndResults) {
  EXPECT_THAT(JobMentions(""), IsEmpty());
  EXPECT_THAT(JobMentions(R"({"model": "/models/x"})"), IsEmpty());
  EXPECT_THAT(JobMentions(std::string(R"({"adapter": "/state/jobs/)") + kA +
                          R"(/out/adapter", "model": "job:)" + kB + R"("})"),
              ElementsAre(kA, kB));
  EXPECT_THAT(JobMentions(std::string("/jobs//jobs/") + kA + "/jobs/" + kB),
              ElementsAre(kA, kB));
}

TEST(JobsNeededBy, ThoseOfItsSpecAndThoseItWaitsForButNotItself) {
  Job job;
  job.id = kA;
  job.spec_json = std::string(R"({"train": "/state/jobs/)") + kA +
                  R"(/inputs/x", "model": "job:)" + kB + R"("})";
  job.after = {"C", kB};
  EXPECT_THAT(JobsNeededBy(job), testing::UnorderedElementsAre(kB, "C"));
}

TEST(JobMentions, WhatIsNoIdIsNone) {
  for (const char* text : {"/jobs/", "/jobs/short/out", "\"job:", "\"job:ID\"",
                           "/jobs/01kah0000000000000000000aa/out",
                           "/jobs/01KAH00000000000000000000U/out"}) {
    EXPECT_THAT(JobMentions(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace mpsd::jobs
