// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_verbs.h"

#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSweep[] = "01KAH0000000000000000000SS";

class SweepVerbsTest : public ClientTest {
 protected:
  SweepVerbsTest() {
    for (const char* id :
         {"01KAH0000000000000000000SU", "01KAH0000000000000000000ST", kSweep}) {
      v1::Sweep sweep = SomeSweep(id);
      SetTime(sweep.mutable_create_time(), absl::Minutes(3));
      daemon_->sweeps().sweeps.push_back(sweep);
    }
  }
};

TEST_F(SweepVerbsTest, ListShowsEveryPage) {
  const Result result = RunVerb({"sweep", "list"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr("ID                          DONE  BEST  METRIC  OWNER  AGE  "
                "  FIELDS                           NAME\n"
                "01KAH0000000000000000000SU  2/3   0.25  loss    ann    3m00s"
                "  learning_rate lr_scheduler_type  tiny\n"));
  EXPECT_THAT(result.out, HasSubstr(kSweep));
  const Result json = RunVerb({"sweep", "list", "--json"});
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 3);
  daemon_->sweeps().sweeps.clear();
  EXPECT_THAT(RunVerb({"sweep", "list"}).out, HasSubstr("No sweeps."));
}

TEST_F(SweepVerbsTest, ShowTakesAnIdOrItsEnd) {
  for (const char* id : {kSweep, "01kah0000000000000000000ss", "00SS"}) {
    const Result result = RunVerb({"sweep", "show", id});
    EXPECT_EQ(result.code, 0) << id << result.err;
    EXPECT_THAT(result.out, HasSubstr("Sweep 01KAH0000000000000000000SS"));
  }
  EXPECT_THAT(RunVerb({"sweep", "show", "01KAH0"}).err, HasSubstr("may be"));
  EXPECT_EQ(RunVerb({"sweep", "show", "ZZZZ"}).code, 4);
  EXPECT_EQ(RunVerb({"sweep", "show", "S"}).code, 2);
  EXPECT_EQ(RunVerb({"sweep", "show", "01KAH0000000000000000000XX"}).code, 4);
}

TEST_F(SweepVerbsTest, ShowDrawsAndWrites) {
  const std::string svg = (folder_ / "s.svg").string();
  EXPECT_EQ(RunVerb({"sweep", "show", kSweep, "--svg", svg}).code, 0);
  EXPECT_THAT(Read(svg), HasSubstr("</svg>"));
  const auto json =
      nlohmann::json::parse(RunVerb({"sweep", "show", kSweep, "--json"}).out);
  EXPECT_EQ(json["children"][2]["rank"], 3);
  EXPECT_EQ(json["parameters"][0]["choices"]["values"][0], "1e-4");
}

TEST_F(SweepVerbsTest, CancelEndsTheSweep) {
  const Result result = RunVerb({"sweep", "cancel", "00SS"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Sweep 01KAH0000000000000000000SS: 2 of 3 jobs have ended, the "
            "others are asked to.\n");
  EXPECT_THAT(daemon_->sweeps().cancelled, ElementsAre(kSweep));
}

// A sweep's whole id will do for the verb of jobs.
TEST_F(SweepVerbsTest, CancelOfJobsTakesASweep) {
  data().fail["Cancel"] =
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  EXPECT_EQ(RunVerb({"cancel", kSweep}).code, 0);
  EXPECT_THAT(daemon_->sweeps().cancelled, ElementsAre(kSweep));
  const Result none = RunVerb({"cancel", "01KAH0000000000000000000XX"});
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("no such job"));
}

}  // namespace
}  // namespace mpsd::client
