// SPDX-License-Identifier: Apache-2.0
#include "client/job_filter.h"

#include <sstream>
#include <string>
#include <vector>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class JobFilterTest : public testing::Test {
 protected:
  absl::StatusOr<v1::ListJobsRequest> Read(std::vector<std::string> args) {
    Command app("", "mpsctl");
    JobFilter filter;
    AddJobFilter(&app, &filter);
    std::ostringstream out, err;
    if (app.Parse(args, out, err)) return absl::InvalidArgumentError(err.str());
    Terminal terminal;
    terminal.clock = &clock_;
    v1::ListJobsRequest request;
    absl::Status filled = FillFilter(filter, terminal, request);
    if (!filled.ok()) return filled;
    return request;
  }

  StoppedClock clock_;
};

TEST_F(JobFilterTest, NothingFiltersUnlessAsked) {
  EXPECT_EQ(Read({})->ByteSizeLong(), 0u);
}

TEST_F(JobFilterTest, EachOptionIsAField) {
  const auto request =
      Read({"--state",       "failed",  "--state",       "CANCELLED",
            "--owner",       "ann",     "--label",       "team=a",
            "--text",        "x",       "--model",       "m",
            "--since",       "2d",      "--until",       "1d",
            "--ended-since", "3h",      "--ended-until", "2026-01-02",
            "--held",        "--pinned"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->states(), testing::ElementsAre(v1::JOB_STATE_FAILED,
                                                      v1::JOB_STATE_CANCELLED));
  EXPECT_EQ(request->owner(), "ann");
  EXPECT_EQ(request->labels().at("team"), "a");
  EXPECT_EQ(request->text(), "x");
  EXPECT_EQ(request->model(), "m");
  const auto ago = [](absl::Duration time) {
    return absl::ToUnixSeconds(kNow - time);
  };
  EXPECT_EQ(request->create_time_from().seconds(), ago(absl::Hours(48)));
  EXPECT_EQ(request->create_time_to().seconds(), ago(absl::Hours(24)));
  EXPECT_EQ(request->end_time_from().seconds(), ago(absl::Hours(3)));
  EXPECT_TRUE(request->has_end_time_to());
  EXPECT_TRUE(request->held());
  EXPECT_TRUE(request->pinned());
}

TEST_F(JobFilterTest, WhatMakesNoSenseIsNamed) {
  EXPECT_THAT(std::string(Read({"--since", "soon"}).status().message()),
              testing::HasSubstr("--since"));
  EXPECT_FALSE(Read({"--label", "x"}).ok());
  EXPECT_THAT(std::string(Read({"--state", "DONE"}).status().message()),
              testing::HasSubstr("--state"));
}

}  // namespace
}  // namespace mpsd::client
