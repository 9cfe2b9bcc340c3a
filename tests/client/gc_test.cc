// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class GcTest : public ClientTest {
 protected:
  v1::CollectionItem& Add(v1::CollectionItem::Kind kind, const std::string& id,
                          int64_t bytes, const std::string& why) {
    v1::CollectionItem& item = *data().plan.add_items();
    item.set_kind(kind);
    item.set_id(id);
    item.set_size_bytes(bytes);
    item.set_why(why);
    return item;
  }
};

TEST_F(GcTest, ADryRunTellsWhatWouldGoAndWhy) {
  Add(v1::CollectionItem::KIND_BLOB, std::string(64, 'a'), 5'000'000,
      "an upload that no job needs");
  v1::CollectionItem& job = Add(v1::CollectionItem::KIND_JOB, kId, 7'000'000,
                                "it ended 45 days ago, keep-days is 30");
  job.set_owner("ann");
  job.set_name("moods\x1b[2J");
  data().plan.set_more(1200);
  data().plan.set_freed_bytes(3'000'000'000);
  data().plan.set_used_bytes(90'000'000'000);
  data().plan.set_budget_bytes(80'000'000'000);
  data().plan.set_short_of("pinned jobs have 5 bytes");
  const Result result = RunVerb({"gc", "--dry-run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "WHAT    ID                          SIZE    OWNER  NAME          WHY\n"
      "upload  aaaaaaaaaaaa…               5.0 MB  -      -             an "
      "upload that no job needs\n"
      "job     01KAH0000000000000000000AA  7.0 MB  ann    moods\\x1b[2J  it "
      "ended 45 days ago, keep-days is 30\n"
      "… and 1,200 more\n"
      "1,202 would go, about 3.0 GB given back.\n"
      "The state folder has 90.0 GB of a budget of 80.0 GB.\n"
      "Short of room: pinned jobs have 5 bytes.\n");
  EXPECT_EQ(data().collections, 0);
}

TEST_F(GcTest, NothingIsAPlanToo) {
  EXPECT_EQ(RunVerb({"gc", "--dry-run"}).out,
            "Nothing would go.\nThe state folder has not been measured yet.\n");
  data().plan.set_used_bytes(5'000'000);
  EXPECT_THAT(RunVerb({"gc", "--dry-run"}).out,
              HasSubstr("has 5.0 MB, and no budget"));
}

TEST_F(GcTest, RemovesAndSaysWhatStays) {
  data().collected.set_removed(3);
  data().collected.set_freed_bytes(2'000'000);
  data().collected.add_failed("job X: it is pinned");
  const Result result = RunVerb({"gc"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Stays: job X: it is pinned\n3 removed, 2.0 MB given back.\n");
  EXPECT_EQ(data().collections, 1);
}

TEST_F(GcTest, Json) {
  data().plan.set_freed_bytes(7);
  EXPECT_THAT(RunVerb({"gc", "--dry-run", "--json"}).out,
              HasSubstr("\"freed_bytes\":7"));
  data().collected.set_removed(3);
  EXPECT_THAT(RunVerb({"gc", "--json"}).out, HasSubstr("\"removed\":3"));
}

TEST_F(GcTest, WhatTheDaemonRefuses) {
  data().fail["Collect"] =
      grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "needs the role admin");
  const Result result = RunVerb({"gc"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("needs the role admin"));
}

}  // namespace
}  // namespace mpsd::client
