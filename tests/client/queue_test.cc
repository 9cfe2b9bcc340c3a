// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class QueueTest : public ClientTest {
 protected:
  v1::QueueResponse::Entry& Add(const std::string& id, v1::JobState state,
                                const std::string& owner,
                                const std::string& why) {
    v1::QueueResponse::Entry& entry = *data().queue.add_entries();
    entry.set_id(id);
    entry.set_name("moods");
    entry.set_owner(owner);
    entry.set_state(state);
    entry.set_why(why);
    SetTime(entry.mutable_queue_time(), absl::Seconds(125));
    return entry;
  }
};

TEST_F(QueueTest, Empty) {
  const Result result = RunVerb({"queue"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "No job runs or waits.\n");
}

TEST_F(QueueTest, ShowsTheOrderAndWhy) {
  Add(kId, v1::JOB_STATE_RUNNING, "ann", "has the device");
  Add(kOtherId, v1::JOB_STATE_QUEUED, "bob", "priority 5").set_priority(5);
  v1::QueueResponse::Entry& held =
      Add("01KAH0000000000000000000CC", v1::JOB_STATE_QUEUED, "", "priority 0");
  held.set_hold("the model is away");
  SetTime(held.mutable_not_before(), -absl::Seconds(30));
  data().queue.set_more(1200);
  data().queue.set_half_life_seconds(86400);
  v1::QueueResponse::Usage& usage = *data().queue.add_usage();
  usage.set_owner("ann");
  usage.set_seconds(7500);
  EXPECT_EQ(
      RunVerb({"queue"}).out,
      "PLACE  ID                          OWNER  PRIORITY  WAITS  NAME   WHY\n"
      "runs   01KAH0000000000000000000AA  ann    0         -      moods  has "
      "the device\n"
      "1      01KAH0000000000000000000BB  bob    5         2m05s  moods  "
      "priority 5\n"
      "2      01KAH0000000000000000000CC  -      0         2m05s  moods  "
      "priority 0; held: the model is away; not before 2026-01-02 03:04:35\n"
      "and 1,200 more\n"
      "\n"
      "What these owners used of the device lately; half of it is forgotten in "
      "1d00h:\n"
      "OWNER  USED\n"
      "ann    2h05m\n");
}

TEST_F(QueueTest, NoNameSteersTheTerminal) {
  Add(kId, v1::JOB_STATE_QUEUED, "ev\x1b[2Je", "x\ny").set_name("a\x1b]0;b");
  const std::string out = RunVerb({"queue"}).out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out;
}

TEST_F(QueueTest, Json) {
  Add(kId, v1::JOB_STATE_QUEUED, "ann", "priority 0");
  data().queue.set_half_life_seconds(3600);
  const nlohmann::json json =
      nlohmann::json::parse(RunVerb({"queue", "--json"}).out);
  EXPECT_EQ(json["entries"][0]["id"], kId);
  EXPECT_EQ(json["entries"][0]["state"], "QUEUED");
  EXPECT_EQ(json["half_life_seconds"], 3600);
}

TEST_F(QueueTest, ARefusalIsTold) {
  data().fail["Queue"] = {grpc::StatusCode::INTERNAL, "no"};
  EXPECT_NE(RunVerb({"queue"}).code, 0);
}

}  // namespace
}  // namespace mpsd::client
