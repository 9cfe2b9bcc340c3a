// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NoteTest : public ClientTest {};

TEST_F(NoteTest, OfAJobAndOfADeletedOne) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  v1::Job past;
  past.set_id(kOtherId);
  data().past.push_back(past);
  EXPECT_EQ(RunVerb({"note", kId, "too hot"}).out,
            std::string(kId) + ": notes 1\n");
  EXPECT_EQ(data().records[kId].notes(0).text(), "too hot");
  EXPECT_EQ(RunVerb({"note", std::string(kOtherId).substr(20), "x"}).out,
            std::string(kOtherId) + ": notes 1\n");
  EXPECT_EQ(RunVerb({"note", kId}).code, 2);
  EXPECT_EQ(RunVerb({"note", "01KAH0000000000000000000ZZ", "x"}).code, 4);
}

TEST_F(NoteTest, TagsComeAndGo) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunVerb({"tag", kId, "baseline", "x/y"}).out,
            std::string(kId) + ": baseline, x/y\n");
  EXPECT_THAT(data().tagged.back().add(), ElementsAre("baseline", "x/y"));
  EXPECT_EQ(RunVerb({"tag", kId, "old", "--remove"}).code, 0);
  EXPECT_THAT(data().tagged.back().remove(), ElementsAre("old"));
  EXPECT_TRUE(data().tagged.back().add().empty());
  EXPECT_EQ(RunVerb({"tag", kId}).code, 2);
  data().fail["Tag"] = {grpc::StatusCode::PERMISSION_DENIED, "ann's"};
  const Result refused = RunVerb({"tag", kId, "mine"});
  EXPECT_EQ(refused.code, 8);
  EXPECT_THAT(refused.err, HasSubstr("ann's"));
}

}  // namespace
}  // namespace mpsd::client
