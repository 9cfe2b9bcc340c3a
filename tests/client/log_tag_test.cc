// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogTagTest : public ClientTest {};

TEST_F(LogTagTest, AddsAndRemoves) {
  const Result result =
      RunVerb({"log", "tag", kId, "+baseline", "-old", "-b", "plain"});
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::TagRecordRequest& asked = daemon_->logbook().tagged.at(0);
  EXPECT_EQ(asked.id(), kId);
  EXPECT_THAT(asked.add(), ElementsAre("baseline", "plain"));
  EXPECT_THAT(asked.remove(), ElementsAre("old", "b"));
  EXPECT_EQ(result.out, std::string(kId) + ": baseline, plain\n");
  EXPECT_EQ(RunVerb({"log", "tag", kId, "-old"}).out,
            std::string(kId) + ": no tags\n");
  const auto json =
      nlohmann::json::parse(RunVerb({"--json", "log", "tag", kId, "+x"}).out);
  EXPECT_EQ(json["tags"][0], "x");
}

TEST_F(LogTagTest, AnOptionIsNoTag) {
  const Result result = RunVerb({"log", "tag", kId, "--odd"});
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(daemon_->logbook().tagged.empty());
  data().fail["TagRecord"] = {grpc::StatusCode::PERMISSION_DENIED, "bob's"};
  EXPECT_THAT(RunVerb({"log", "tag", kId, "+x"}).err, HasSubstr("bob's"));
}

}  // namespace
}  // namespace mpsd::client
