// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class DeleteTest : public ClientTest {
 protected:
  DeleteTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kOtherId, v1::JOB_STATE_FAILED);
  }
};

TEST_F(DeleteTest, SeveralJobs) {
  EXPECT_THAT(
      RunVerb({"delete", kId, "0000BB"}),
      Prints("Job 01KAH0000000000000000000AA is deleted, 1.5 MB freed.\nJob "
             "01KAH0000000000000000000BB is deleted, 1.5 MB freed.\n"));
  EXPECT_TRUE(data().jobs.empty());
}

TEST_F(DeleteTest, NeitherNothingNorALittleIsAJob) {
  const auto json = ParseJson(Out({"delete", kId, "--json"}));
  EXPECT_EQ(json["job_id"], kId);
  EXPECT_EQ(json["freed_bytes"], 1'500'000);
  // One is left, which every text would fit.
  for (const char* text : {"", "BB", "000BB"}) {
    EXPECT_EQ(RunVerb({"delete", text}).code, 2) << text;
  }
  EXPECT_EQ(RunVerb({"delete", kOtherId, ""}).code, 2);
  EXPECT_EQ(data().jobs.size(), 1u);
}

TEST_F(DeleteTest, WhatTheDaemonRefuses) {
  Fail("Delete", StatusCode::FAILED_PRECONDITION,
       "job X is RUNNING: cancel it");
  EXPECT_THAT(RunVerb({"delete", kId}),
              Fails(2, HasSubstr("job X is RUNNING: cancel it")));
  Fail("Delete", StatusCode::UNIMPLEMENTED, "");
  EXPECT_THAT(RunVerb({"delete", kId}),
              Fails(6, HasSubstr("differ in version")));
}

class DeleteManyTest : public DeleteTest {
 protected:
  static v1::DeleteJobsResponse Answer(int64_t matched, int64_t freed_bytes,
                                       bool more = false) {
    v1::DeleteJobsResponse answer;
    answer.set_matched(matched);
    answer.set_freed_bytes(freed_bytes);
    answer.set_more(more);
    answer.add_deleted(kId);
    return answer;
  }
};

TEST_F(DeleteManyTest, AsksFirstAndDeletesWhatWasShown) {
  data().delete_answers = {Answer(1234, 5'000'000'000),
                           Answer(100, 1'000'000, true), Answer(34, 500'000)};
  answers_ = {"yes"};
  const std::string out = Out({"delete", "--state", "failed", "--older-than",
                               "30d", "--label", "team=a"});
  EXPECT_EQ(asked_,
            "Delete 1,234 jobs with logs, checkpoints and results, about 5.0 "
            "GB? (yes/no) \n");
  EXPECT_EQ(out, "134 jobs are deleted, 1.5 MB freed.\n");
  ASSERT_EQ(data().deleted.size(), 3u);
  EXPECT_TRUE(data().deleted[0].dry_run());
  EXPECT_FALSE(data().deleted[1].dry_run());
  const v1::ListJobsRequest& filter = data().deleted[2].filter();
  EXPECT_THAT(filter.states(), ElementsAre(v1::JOB_STATE_FAILED));
  EXPECT_EQ(filter.end_time_to().seconds(),
            absl::ToUnixSeconds(kNow - absl::Hours(30 * 24)));
  EXPECT_EQ(filter.labels().at("team"), "a");
  EXPECT_GT(filter.page_size(), 0);
}

TEST_F(DeleteManyTest, ANoDeletesNothing) {
  data().delete_answers = {Answer(2, 5)};
  for (const char* answer : {"no", "", "nothing"}) {
    answers_ = {answer};
    EXPECT_THAT(RunVerb({"delete", "--all"}),
                Ends(testing::Ne(0), "Nothing was deleted.\n"));
  }
  // Nor does a script without a terminal.
  answers_.clear();
  EXPECT_THAT(RunVerb({"delete", "--all"}),
              Fails(2, HasSubstr("--yes deletes them without asking")));
  for (const v1::DeleteJobsRequest& request : data().deleted) {
    EXPECT_TRUE(request.dry_run());
  }
}

TEST_F(DeleteManyTest, AllMeansThoseThatHaveEndedByNow) {
  data().delete_answers = {Answer(1, 5)};
  EXPECT_THAT(RunVerb({"delete", "--all", "--yes"}),
              Prints("1 job is deleted, 5 B freed.\n"));
  EXPECT_EQ(asked_, "");
  const v1::ListJobsRequest& filter = Only(data().deleted).filter();
  EXPECT_EQ(filter.states_size(), 3);
  EXPECT_EQ(filter.end_time_to().seconds(), absl::ToUnixSeconds(kNow) + 1);
  EXPECT_EQ(filter.owner(), "");
}

TEST_F(DeleteManyTest, ADryRunTellsAndDeletesNothing) {
  v1::DeleteJobsResponse answer = Answer(25, 7'000'000);
  for (int i = 0; i < 24; ++i) answer.add_deleted(kOtherId);
  auto* kept = answer.add_kept();
  kept->set_id("X");
  kept->set_why("it is pinned\x1b[2J");
  data().delete_answers = {answer};
  EXPECT_THAT(RunVerb({"delete", "--owner", "ann", "--dry-run"}),
              Prints(AllOf(StartsWith(std::string(kId) + "\n"),
                           HasSubstr("… and 5 more\n"),
                           HasSubstr("Job X stays: it is pinned\\x1b[2J\n"),
                           EndsWith("25 jobs would be deleted, about "
                                    "7.0 MB freed.\n"))));
  const Result json = RunVerb({"delete", kId, "--dry-run", "--json"});
  const auto object = ParseJson(json.out);
  EXPECT_EQ(object["matched"], 25);
  EXPECT_EQ(object["kept"][0]["id"], "X");
  EXPECT_EQ(data().deleted.back().ids_size(), 1);
  EXPECT_EQ(data().jobs.size(), 2u);
}

TEST_F(DeleteManyTest, IdsOrAFilter) {
  for (const Args& args :
       {Args{"delete"},
        {"delete", kId, "--all"},
        {"delete", "--yes"},
        {"delete", "--older-than", "soon"},
        {"delete", "--older-than", "3d", "--ended-until", "3d"}}) {
    EXPECT_EQ(RunVerb(args).code, 2) << args.back();
  }
  EXPECT_TRUE(data().deleted.empty());
  EXPECT_EQ(data().jobs.size(), 2u);
  data().delete_answers = {v1::DeleteJobsResponse()};
  EXPECT_THAT(RunVerb({"delete", "--text", "x"}), Prints("No such jobs.\n"));
}

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
  EXPECT_THAT(
      RunVerb({"gc", "--dry-run"}),
      Prints(
          "WHAT    ID                          SIZE    OWNER  NAME          "
          "WHY\n"
          "upload  aaaaaaaaaaaa…               5.0 MB  -      -             an "
          "upload that no job needs\n"
          "job     01KAH0000000000000000000AA  7.0 MB  ann    moods\\x1b[2J  "
          "it ended 45 days ago, keep-days is 30\n"
          "… and 1,200 more\n"
          "1,202 would be removed, about 3.0 GB freed.\n"
          "The state folder has 90.0 GB of a budget of 80.0 GB.\n"
          "Short of space: pinned jobs have 5 bytes.\n"));
  EXPECT_EQ(data().collections, 0);
}

TEST_F(GcTest, NothingIsAPlanToo) {
  EXPECT_EQ(RunVerb({"gc", "--dry-run"}).out,
            "Nothing would be removed.\nThe state folder has not been measured "
            "yet.\n");
  data().plan.set_used_bytes(5'000'000);
  EXPECT_THAT(RunVerb({"gc", "--dry-run"}).out,
              HasSubstr("has 5.0 MB, and no budget"));
}

TEST_F(GcTest, RemovesAndSaysWhatStays) {
  data().collected.set_removed(3);
  data().collected.set_freed_bytes(2'000'000);
  data().collected.add_failed("job X: it is pinned");
  EXPECT_THAT(RunVerb({"gc"}),
              Prints("Stays: job X: it is pinned\n3 removed, 2.0 MB freed.\n"));
  EXPECT_EQ(data().collections, 1);
  data().plan.set_freed_bytes(7);
  EXPECT_THAT(RunVerb({"gc", "--dry-run", "--json"}).out,
              HasSubstr("\"freed_bytes\":7"));
  data().collected.set_removed(3);
  EXPECT_THAT(RunVerb({"gc", "--json"}).out, HasSubstr("\"removed\":3"));
  Fail("Collect", StatusCode::PERMISSION_DENIED, "needs the role admin");
  EXPECT_THAT(RunVerb({"gc"}),
              Fails(testing::Ne(0), HasSubstr("needs the role admin")));
}

}  // namespace
}  // namespace mpsd::client
