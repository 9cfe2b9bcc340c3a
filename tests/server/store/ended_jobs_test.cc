// SPDX-License-Identifier: Apache-2.0
#include "server/store/ended_jobs.h"

#include <cmath>
#include <functional>
#include <set>
#include <thread>

#include "SQLiteCpp/Database.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::jobs {
namespace {

using store::AllMigrations;
using store::Migrate;

const absl::Time kEnd = absl::FromUnixSeconds(1'800'000'000);

std::string Id(int number) { return QueuedJob(number).id; }

class KeptJobsTest : public StoreFixture {
 protected:
  Job Add(int number, const std::string& owner, State state,
          const std::set<std::string>& uses = {},
          const std::vector<std::string>& after = {}) {
    Job job = QueuedJob(number);
    job.owner = owner;
    job.state = state;
    job.uses = uses;
    job.after = after;
    job.create_time = kEnd - absl::Hours(1);
    if (IsFinal(state)) job.end_time = EndOf(number);
    return Insert(job);
  }
  static absl::Time EndOf(int number) {
    return kEnd + number * absl::Seconds(1);
  }
  // "owner: number number(bound)".
  std::vector<std::string> Ended() {
    absl::StatusOr<std::vector<KeptOwner>> owners = kept_.Ended();
    EXPECT_TRUE(owners.ok()) << owners.status();
    std::vector<std::string> texts;
    for (const KeptOwner& owner : *owners) {
      std::string text = owner.name + ":";
      for (const KeptJob& job : owner.jobs) {
        const auto named = kept_.Names({job.number});
        absl::StrAppend(&text, " ", std::stoi(named->at(0).id.substr(3)),
                        job.bound ? "!" : "");
      }
      texts.push_back(text);
    }
    return texts;
  }
  absl::Status MayRemove(int number) {
    return kept_.MayRemove(Id(number), EndOf(number));
  }

  KeptJobs kept_{*database_};
};

TEST_F(KeptJobsTest, TheJobsThatHaveEndedByOwnerAndEnd) {
  EXPECT_THAT(Ended(), IsEmpty());
  Add(1, "bob", State::kSucceeded);
  Add(4, "ada", State::kFailed);
  Add(2, "ada", State::kCancelled);
  Add(3, "ada", State::kQueued);
  Add(5, "", State::kSucceeded);
  EXPECT_THAT(Ended(), ElementsAre(": 5", "ada: 2 4", "bob: 1"));
  const auto owners = *kept_.Ended();
  EXPECT_EQ(owners[1].jobs[0].ended, EndOf(2));
  EXPECT_FALSE(owners[1].jobs[1].succeeded);
  EXPECT_TRUE(owners[2].jobs[0].succeeded);
}

TEST_F(KeptJobsTest, WhatOthersNeedIsBound) {
  for (int i = 1; i <= 7; ++i) Add(i, "ada", State::kSucceeded);
  Add(20, "ada", State::kQueued, {Id(1)});
  Add(21, "bob", State::kRunning, {Id(2)});
  Add(22, "bob", State::kQueued, {}, {Id(3), Id(999)});
  // Those that have ended need nothing.
  Add(23, "bob", State::kFailed, {Id(4)}, {Id(5)});
  ASSERT_TRUE(kept_.SetPinned(Id(6), true).ok());
  EXPECT_THAT(Ended(), ElementsAre("ada: 1! 2! 3! 4 5 6! 7", "bob: 23"));
  const struct {
    int number;
    std::string why;
  } refused[] = {{1, Id(20) + ", which has not ended, uses files of"},
                 {2, Id(21) + ", which has not ended, uses files of"},
                 {3, Id(22) + ", which has not ended, waits for"},
                 {6, "is pinned"},
                 {20, "is QUEUED: cancel it"}};
  for (const auto& [number, why] : refused) {
    EXPECT_THAT(MayRemove(number),
                Fails(absl::StatusCode::kFailedPrecondition, why));
    EXPECT_FALSE(kept_.ForgetCheckpoints(Id(number), EndOf(number)).ok());
  }
  for (int number : {4, 5, 7}) EXPECT_TRUE(MayRemove(number).ok()) << number;
  // A person may delete what another job waits for, and nothing else.
  EXPECT_TRUE(kept_.MayDelete(Id(3)).ok());
  EXPECT_TRUE(kept_.MayDelete(Id(4)).ok());
  for (int number : {1, 2, 6, 20, 99}) {
    EXPECT_FALSE(kept_.MayDelete(Id(number)).ok()) << number;
  }
  // Once those have ended, and the pin is gone.
  for (int number : {20, 22}) {
    Job job = *jobs_.Get(Id(number));
    job.state = State::kCancelled;
    job.end_time = EndOf(number);
    Update(job);
  }
  ASSERT_TRUE(kept_.SetPinned(Id(6), false).ok());
  EXPECT_THAT(Ended(), ElementsAre("ada: 1 2! 3 4 5 6 7 20", "bob: 22 23"));
}

TEST_F(KeptJobsTest, AJobThatEndedAtAnotherTimeIsAnotherMatter) {
  Add(1, "ada", State::kFailed);
  EXPECT_TRUE(MayRemove(1).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      kept_.MayRemove(Id(1), EndOf(1) - absl::Microseconds(1))));
  EXPECT_TRUE(absl::IsNotFound(kept_.MayRemove(Id(2), EndOf(2))));
}

TEST_F(KeptJobsTest, APinKeepsTheRowFromDelete) {
  Add(1, "ada", State::kFailed);
  EXPECT_TRUE(absl::IsNotFound(kept_.SetPinned(Id(2), true)));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(kept_.SetPinned(Id(1), true).ok());
  EXPECT_TRUE(jobs_.Get(Id(1))->pinned);
  EXPECT_THAT(jobs_.Delete(Id(1)),
              Fails(absl::StatusCode::kFailedPrecondition, "--unpin`"));
  EXPECT_TRUE(jobs_.Get(Id(1)).ok());
  // A change of the row by a worker's reports leaves the pin alone.
  Job job = *jobs_.Get(Id(1));
  job.pinned = false;
  job.stored_bytes = 77;
  Update(job);
  EXPECT_TRUE(jobs_.Get(Id(1))->pinned);
  EXPECT_EQ(jobs_.Get(Id(1))->stored_bytes, 0);
  ASSERT_TRUE(kept_.SetPinned(Id(1), false).ok());
  EXPECT_TRUE(jobs_.Delete(Id(1)).ok());
}

TEST_F(KeptJobsTest, BytesAreStoredAndCheckpointsForgotten) {
  const Job job = Add(1, "ada", State::kFailed);
  ASSERT_TRUE(kept_.SetBytes({{Id(1), 100, 60}, {Id(2), 5, 5}}).ok());
  ASSERT_TRUE(kept_.SetBytes({{Id(1), 100, 60}}).ok());
  EXPECT_EQ(jobs_.Get(Id(1))->stored_bytes, 100);
  ASSERT_TRUE(jobs_.AddCheckpoint(Id(1), {{3, "/step-3"}, {}}).ok());
  Job advanced = job;
  advanced.durable_step = 3;
  Update(advanced);
  auto kept = (*kept_.Ended())[0].jobs[0];
  EXPECT_EQ(kept.bytes, 100);
  EXPECT_EQ(kept.checkpoint_bytes, 60);
  absl::Status forgotten = kept_.ForgetCheckpoints(Id(1), EndOf(1));
  ASSERT_TRUE(forgotten.ok()) << forgotten;
  kept = (*kept_.Ended())[0].jobs[0];
  EXPECT_EQ(kept.bytes, 40);
  EXPECT_EQ(kept.checkpoint_bytes, 0);
  EXPECT_THAT(*jobs_.Checkpoints(Id(1)), IsEmpty());
  EXPECT_EQ(jobs_.Get(Id(1))->durable_step, 0);
}

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);

class PastJobsTest : public MemoryFixture {
 protected:
  // A job that has ended.
  Job Ended(int number) {
    Job job = QueuedJob(number);
    job.owner = "ada";
    Insert(job);
    job.state = State::kRunning;
    Update(job);
    job.state = State::kSucceeded;
    job.end_time = kNow;
    Update(job);
    return job;
  }
  static Job Past(int number, const std::string& owner = "ada") {
    Job job = QueuedJob(number);
    job.owner = owner;
    job.state = State::kFailed;
    job.end_time = kNow + absl::Seconds(number);
    return job;
  }
  void Put(const Job& job) { Put(past_, job); }
  static void Put(PastJobs& past, const Job& job) {
    const absl::Status put =
        past.Put(job, absl::StrCat("texts of ", job.name),
                 absl::StrCat("body of ", job.name, std::string("\0\xff", 2)));
    ASSERT_TRUE(put.ok()) << put;
  }
  std::vector<std::string> Names(const ListFilter& filter = {}) {
    const auto found = past_.List(filter);
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(past_.Count(filter).value_or(-1), found->size());
    std::vector<std::string> names;
    for (const auto& job : *found) names.push_back(job.name);
    return names;
  }
  std::vector<std::string> NamesWith(
      const std::function<void(ListFilter&)>& set) {
    ListFilter filter;
    set(filter);
    return Names(filter);
  }
  static std::string Id(int number) { return QueuedJob(number).id; }

  // What an attempt of the job saw.
  void PutAttempt(const Job& job, const std::string& seen) {
    EXPECT_TRUE(
        past_.PutAttempts({{job.id, kNow, seen}}, absl::InfiniteDuration())
            .ok());
  }

  PastJobs past_{*database_};
};

TEST_F(PastJobsTest, ARecordCountsOnceItsJobIsGone) {
  const Job job = Ended(1);
  PutAttempt(job, "one");
  ASSERT_TRUE(past_.AddNote(job.id, {kNow, "bob", "looks wrong"}).ok());
  ASSERT_TRUE(past_.Tag(job.id, {"x", "baseline"}, {}).ok());
  EXPECT_THAT(jobs_.Get(job.id)->tags, ElementsAre("baseline", "x"));
  Put(job);
  EXPECT_THAT(Names(), IsEmpty()) << "the deletion may still fail";
  ASSERT_TRUE(jobs_.Delete(job.id).ok());
  EXPECT_THAT(Names(), ElementsAre("job 1"));
  EXPECT_EQ(*past_.BodyOf(job.id), "body of job 1" + std::string("\0\xff", 2));
  EXPECT_THAT(*past_.TagsOf(job.id), ElementsAre("baseline", "x"));
  ASSERT_THAT(*past_.NotesOf(job.id), SizeIs(1));
  EXPECT_EQ(past_.NotesOf(job.id)->at(0).text, "looks wrong");
  EXPECT_EQ(past_.NotesOf(job.id)->at(0).author, "bob");
  EXPECT_EQ(past_.NotesOf(job.id)->at(0).time, kNow);
  // What was seen of attempts goes with the job, and comes no more.
  EXPECT_THAT(*past_.Attempts(job.id), IsEmpty());
  PutAttempt(job, "late");
  EXPECT_THAT(*past_.Attempts(job.id), IsEmpty());
  // Notes and tags are added all the same.
  EXPECT_TRUE(past_.AddNote(job.id, {kNow, "bob", "still"}).ok());
  EXPECT_TRUE(past_.Tag(job.id, {}, {"x"}).ok());
  EXPECT_THAT(*past_.TagsOf(job.id), ElementsAre("baseline"));
}

TEST_F(PastJobsTest, AJobWithoutARecordLeavesNothing) {
  const Job job = Ended(1);
  ASSERT_TRUE(past_.AddNote(job.id, {kNow, "bob", "x"}).ok());
  ASSERT_TRUE(past_.Tag(job.id, {"x"}, {}).ok());
  ASSERT_TRUE(jobs_.Delete(job.id).ok());
  EXPECT_THAT(*past_.NotesOf(job.id), IsEmpty());
  EXPECT_THAT(*past_.TagsOf(job.id), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(past_.BodyOf(job.id).status()));
}

TEST_F(PastJobsTest, AttemptsAreReplacedAndOrdered) {
  const Job job = Ended(1);
  const std::string bytes("\0\xff{", 3);
  ASSERT_TRUE(past_
                  .PutAttempts({{job.id, kNow + absl::Seconds(1), "second"},
                                {job.id, kNow, "first"}},
                               absl::InfiniteDuration())
                  .ok());
  PutAttempt(job, bytes);
  EXPECT_THAT(*past_.Attempts(job.id), ElementsAre(bytes, "second"));
}

TEST_F(PastJobsTest, NotesAndTagsHaveBounds) {
  Put(Past(1));
  for (int i = 0; i < limits::kJobNotes; ++i) {
    ASSERT_TRUE(past_.AddNote(Id(1), {kNow, "bob", "a note"}).ok());
  }
  EXPECT_TRUE(
      absl::IsResourceExhausted(past_.AddNote(Id(1), {kNow, "bob", "more"})));
  EXPECT_TRUE(past_.AddNote(Id(1), {kNow, "ann", "her own"}).ok());
  EXPECT_THAT(*past_.NotesOf(Id(1)), SizeIs(limits::kJobNotes + 1));
  std::vector<std::string> tags;
  for (int i = 0; i < limits::kJobTags; ++i) {
    tags.push_back(absl::StrCat("t", i));
  }
  ASSERT_TRUE(past_.Tag(Id(1), tags, {}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(past_.Tag(Id(1), {"more"}, {})));
  EXPECT_TRUE(past_.Tag(Id(1), {"more"}, {"t0"}).ok());
  EXPECT_THAT(*past_.TagsOf(Id(1)), SizeIs(limits::kJobTags));
  EXPECT_TRUE(absl::IsNotFound(past_.AddNote(Id(9), {kNow, "b", "x"})));
  EXPECT_TRUE(absl::IsNotFound(past_.Tag(Id(9), {"x"}, {})));
}

TEST_F(PastJobsTest, FiftyWritersOfNotesLoseNone) {
  Put(Past(1));
  std::vector<std::thread> writers;
  writers.reserve(50);
  for (int i = 0; i < 50; ++i) {
    writers.emplace_back([this, i] {
      for (int k = 0; k < 4; ++k) {
        const std::string text = absl::StrCat("note ", i, " ", k);
        EXPECT_TRUE(past_.AddNote(Id(1), {kNow, "u", text}).ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::set<std::string> texts;
  const auto notes = *past_.NotesOf(Id(1));
  for (const auto& note : notes) texts.insert(note.text);
  EXPECT_THAT(texts, SizeIs(200));
}

TEST_F(PastJobsTest, EachFilterFindsItsJobs) {
  Job one = Past(1), two = Past(2, "bob"), three = Past(3);
  one.labels = {{"team", "nlp"}, {"a\"b", "c'd"}};
  two.model = "org/m";
  two.state = State::kSucceeded;
  three.create_time = kNow;
  for (const Job& job : {one, two, three}) Put(job);
  ASSERT_TRUE(past_.Tag(one.id, {"baseline"}, {}).ok());
  ASSERT_TRUE(past_.AddNote(two.id, {kNow, "u", "100%_sure \\ 'x'"}).ok());
  EXPECT_THAT(Names(), ElementsAre("job 3", "job 2", "job 1"));
  EXPECT_THAT(NamesWith([](auto& f) { f.owner = "bob"; }),
              ElementsAre("job 2"));
  EXPECT_THAT(NamesWith([&](auto& f) { f.labels = one.labels; }),
              ElementsAre("job 1"));
  EXPECT_THAT(NamesWith([&](auto& f) {
                f.labels = one.labels;
                f.labels["team"] = "nl";
              }),
              IsEmpty());
  EXPECT_THAT(NamesWith([](auto& f) {
                f.model = "org/m";
                f.states = {State::kSucceeded, State::kCancelled};
              }),
              ElementsAre("job 2"));
  EXPECT_THAT(NamesWith([](auto& f) { f.tags = {"baseline"}; }),
              ElementsAre("job 1"));
  EXPECT_THAT(NamesWith([](auto& f) {
                f.tags = {"baseline", "other"};
              }),
              IsEmpty());
  EXPECT_THAT(NamesWith([](auto& f) { f.created_from = kNow; }),
              ElementsAre("job 3"));
  EXPECT_THAT(NamesWith([](auto& f) { f.ended_to = kNow + absl::Seconds(3); }),
              ElementsAre("job 2", "job 1"));
  EXPECT_THAT(NamesWith([](auto& f) { f.pinned = true; }), IsEmpty());
  for (const auto& [text, found] : {std::pair("100%_SURE", "job 2"),
                                    {"\\", "job 2"},
                                    {"'x'", "job 2"},
                                    {"texts of JOB 3", "job 3"}}) {
    EXPECT_THAT(NamesWith([&](auto& f) { f.text = text; }), ElementsAre(found))
        << text;
  }
  for (const auto& [text, count] :
       {std::pair("_", 1), {"%", 1}, {"\"", 0}, {"job_", 0}}) {
    EXPECT_THAT(NamesWith([&](auto& f) { f.text = text; }), SizeIs(count))
        << text;
  }
}

TEST_F(PastJobsTest, PagesInEachOrderMissNone) {
  for (int i = 1; i <= 7; ++i) {
    Job job = Past(i, i % 2 == 0 ? "ada" : "Bob");
    if (i % 3 != 0) job.eval_loss_after = 1.0 / (i % 4 + 1);
    if (i == 5) job.eval_loss_after = std::nan("");
    job.device_time = absl::Seconds(i % 3);
    Put(job);
  }
  for (const ListOrder order : kAllListOrders) {
    for (const bool ascending : {false, true}) {
      ListFilter all;
      all.order = order;
      all.ascending = ascending;
      const std::vector<std::string> expected = Names(all);
      ASSERT_THAT(expected, SizeIs(7));
      std::vector<std::string> paged;
      ListFilter page = all;
      page.limit = 2;
      for (;;) {
        const auto found = Ok(past_.List(page));
        if (found.empty()) break;
        for (const auto& job : found) paged.push_back(job.name);
        page.after = found.back().place;
      }
      EXPECT_EQ(paged, expected) << static_cast<int>(order) << ascending;
    }
  }
  ListFilter by_loss;
  by_loss.order = ListOrder::kEvalLoss;
  by_loss.ascending = true;
  EXPECT_THAT(Names(by_loss), ElementsAre("job 7", "job 2", "job 1", "job 4",
                                          "job 3", "job 5", "job 6"));
}

TEST_F(PastJobsTest, JobsAreFoundByTheEndsOfTheirIdsAndByName) {
  const auto found = [this](const std::string& part, int limit = 10) {
    return *past_.FindByText({.id_part = part}, limit);
  };
  Put(Past(11111));
  Put(Past(22222, "bob"));
  EXPECT_THAT(found("01J0"), SizeIs(2));
  EXPECT_THAT(found("01J0", 1), SizeIs(1));
  ASSERT_THAT(found("2222"), SizeIs(1));
  EXPECT_EQ(found("2222").at(0).owner, "bob");
  EXPECT_THAT(found("0111"), IsEmpty());
  EXPECT_THAT(found("%%%%"), IsEmpty());
  const std::string name = found("2222").at(0).name;
  EXPECT_THAT(*past_.FindByText({.name = name, .owner = "bob"}, 10), SizeIs(1));
  EXPECT_THAT(*past_.FindByText({.name = name, .owner = "eve"}, 10), IsEmpty());
  // The row has the first 60 characters.
  Job longer = Past(33333);
  longer.name = std::string(70, 'x');
  ASSERT_TRUE(
      past_.Put(longer, absl::StrCat("id\n", longer.name, "\nada"), "").ok());
  for (const size_t length : {60, 69, 70, 71}) {
    EXPECT_THAT(*past_.FindByText({.name = std::string(length, 'x')}, 10),
                SizeIs(length == 70 ? 1 : 0));
  }
}

TEST_F(PastJobsTest, TheOldestOfWhoHasTheMostGo) {
  PastJobs few(*database_, {.most = 4});
  Put(few, Past(1, "bob"));
  for (int i = 2; i <= 4; ++i) Put(few, Past(i));
  ASSERT_TRUE(few.Tag(Id(2), {"baseline"}, {}).ok());
  ASSERT_TRUE(few.AddNote(Id(3), {kNow, "u", "keep me"}).ok());
  for (int i = 5; i <= 7; ++i) Put(few, Past(i));
  EXPECT_THAT(Names(), ElementsAre("job 7", "job 3", "job 2", "job 1"));
  // Notes and tags of what goes, go.
  Put(few, Past(8));
  Put(few, Past(9));
  EXPECT_THAT(Names(), ElementsAre("job 9", "job 3", "job 2", "job 1"));
  ASSERT_TRUE(few.AddNote(Id(9), {kNow, "u", "keep me, too"}).ok());
  Put(few, Past(10));
  ASSERT_TRUE(few.AddNote(Id(9), {kNow, "u", "x"}).ok());
  EXPECT_THAT(Names(), ElementsAre("job 9", "job 3", "job 2", "job 1"));
  PastJobs fewer(*database_, {.most = 2});
  Put(fewer, Past(11));
  EXPECT_THAT(*few.NotesOf(Id(3)), IsEmpty());
  EXPECT_THAT(*few.TagsOf(Id(2)), IsEmpty());
}

TEST_F(PastJobsTest, ASearchThatTakesTooLongIsGivenUp) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(past_.Put(Past(i), std::string(16'000, 'a'), "").ok());
  }
  PastJobs impatient(*database_, {.search = absl::Milliseconds(1)});
  ListFilter filter;
  filter.text = std::string(200, 'a') + "b";
  const absl::Status status = impatient.List(filter).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  // What comes next on the connection has its own time.
  filter.text = "aaa";
  filter.limit = 3;
  EXPECT_THAT(*past_.List(filter), SizeIs(3));
}

TEST_F(PastJobsTest, ASearchOfJobsFindsNotesAndTags) {
  const Job job = Ended(1);
  Ended(2);
  ASSERT_TRUE(past_.AddNote(job.id, {kNow, "u", "the loader stalls"}).ok());
  ASSERT_TRUE(past_.Tag(job.id, {"slow"}, {}).ok());
  ListFilter filter;
  filter.text = "LOADER";
  ASSERT_THAT(*jobs_.List(filter), SizeIs(1));
  EXPECT_THAT(jobs_.List(filter)->at(0).tags, ElementsAre("slow"));
  filter = {};
  filter.tags = {"slow"};
  EXPECT_THAT(*jobs_.List(filter), SizeIs(1));
  EXPECT_EQ(*jobs_.CountListed(filter), 1);
  ASSERT_TRUE(jobs_.Delete(job.id).ok());
  EXPECT_THAT(*jobs_.List(filter), IsEmpty());
}

// A database with the records of former releases, which were a store of their
// own.
TEST(PastJobsMigration, FormerRecordsNotesAndTagsStay) {
  const Scratch scratch;
  constexpr int kFormer = 22;
  {
    SQLite::Database former(scratch.file().string(),
                            SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    former.exec("PRAGMA foreign_keys=ON");
    ASSERT_TRUE(Migrate(former, AllMigrations().first(kFormer)).ok());
    // A job that is there, one that went, and a note of its own.
    former.exec(R"sql(
      INSERT INTO jobs (id, name, state, cancel_requested, owner, priority,
                        create_time_us, attempt, failures, message,
                        output_path, spec_json, request_hash)
      VALUES ('01J00000000000000000000001', 'there', 2, 0, 'ada', 0, 1, 1, 0,
              '', '', '{}', 'h');
      UPDATE jobs SET state = 3, end_time_us = 2;
      INSERT INTO run_attempts VALUES ('01J00000000000000000000001', 1, x'7365656e');
      INSERT INTO records (number, id, owner, end_time_us, kind, state, name,
                           model, eval_loss, device_seconds)
      VALUES (1, '01J00000000000000000000001', 'ada', 2, 1, 3, 'there', 'm',
              0.5, 3),
             (2, '01HKX24J400000000000000002', 'bob', 5, 1, 4, 'gone', 'm',
              0.25, 1.5),
             (3, '01HKX24J400000000000000003', 'eve', 6, 0, NULL, NULL, NULL,
              NULL, NULL);
      INSERT INTO record_bodies VALUES (1, x'6231'), (2, x'6232'), (3, x'6233');
      INSERT INTO record_labels VALUES (2, 'team', 'nlp'), (2, 'a"b', 'x');
      INSERT INTO record_metrics VALUES (2, 'f1', 0.5);
      INSERT INTO record_tags VALUES ('kept', 1), ('old', 2), ('best', 2);
      INSERT INTO record_notes VALUES
        (1, 1, 7, 'eve', 'of the job that is there', 0),
        (2, 1, 8, 'eve', 'not the data', 1), (2, 2, 9, 'ada', 'right', 0),
        (3, 1, 10, 'eve', 'bf16 is not why', 0);
      INSERT INTO record_text_rows VALUES (512, 'gone bob nlp');
      INSERT INTO record_texts (rowid, texts) VALUES (512, 'gone bob nlp');
    )sql");
  }
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  JobStore jobs(*database);
  PastJobs past(*database);
  const std::string there = "01J00000000000000000000001",
                    gone = "01HKX24J400000000000000002",
                    entry = "01HKX24J400000000000000003";
  ASSERT_TRUE(jobs.Get(there).ok()) << jobs.Get(there).status();
  EXPECT_THAT(jobs.Get(there)->tags, ElementsAre("kept"));
  EXPECT_THAT(*past.NotesOf(there), SizeIs(1));
  EXPECT_THAT(*past.Attempts(there), ElementsAre("seen"));
  const auto listed = Ok(past.List({}));
  ASSERT_THAT(listed, SizeIs(2));
  EXPECT_EQ(listed.at(0).name, "bf16 is not why");
  EXPECT_EQ(listed.at(1).name, "gone");
  EXPECT_EQ(*past.BodyOf(gone), "b2");
  EXPECT_EQ(*past.BodyOf(entry), "b3");
  EXPECT_THAT(*past.TagsOf(gone), ElementsAre("best", "old"));
  ASSERT_THAT(*past.NotesOf(gone), SizeIs(2));
  EXPECT_EQ(past.NotesOf(gone)->at(0).text, "rejected: not the data");
  EXPECT_EQ(past.NotesOf(gone)->at(1).author, "ada");
  ListFilter filter;
  filter.labels = {{"team", "nlp"}, {"a\"b", "x"}};
  filter.owner = "bob";
  filter.states = {State::kFailed};
  filter.text = "GONE BOB";
  // The id says when it was submitted.
  filter.created_from = absl::FromUnixMillis(1'705'000'000'000);
  filter.created_to = absl::FromUnixMillis(1'705'000'000'000) + absl::Hours(24);
  EXPECT_EQ(*past.Count(filter), 1);
  // Jobs still end, start anew and go.
  Job job = *jobs.Get(there);
  job.state = State::kQueued;
  job.end_time.reset();
  ASSERT_TRUE(jobs.Update(job, {}).ok());
  job.state = State::kCancelled;
  job.end_time = kNow;
  ASSERT_TRUE(jobs.Update(job, {}).ok());
  ListFilter text;
  text.text = "that is there";
  EXPECT_THAT(*jobs.List(text), SizeIs(1)) << "notes are searched";
  ASSERT_TRUE(jobs.Delete(there).ok());
  EXPECT_THAT(*past.NotesOf(there), IsEmpty());
  // Nothing is left of the former tables.
  Connection& c = database->reader();
  absl::MutexLock lock(&c.mutex());
  Query left(c,
             "SELECT group_concat(name) FROM sqlite_schema "
             "WHERE name LIKE '%record%'");
  ASSERT_TRUE(left.Next());
  EXPECT_EQ(left.OptionalText().value_or(""), "");
}

class EndedJobsTest : public StoreFixture {
 protected:
  void Move(Job& job, State state, const std::string& message = "") {
    job.state = state;
    job.message = message;
    if (IsFinal(state)) job.end_time = absl::FromUnixMicros(77);
    Update(job);
  }
  std::vector<EndedJob> After(int64_t number, int limit = 100) {
    auto ends = ends_.After(number, limit);
    EXPECT_TRUE(ends.ok()) << ends.status();
    return *ends;
  }

  EndedJobs ends_{*database_};
};

TEST_F(EndedJobsTest, HasEachEndAsItWas) {
  Job job = Insert(QueuedJob(1));
  Move(job, State::kRunning);
  EXPECT_THAT(After(0), IsEmpty());
  Move(job, State::kFailed, "first");
  Move(job, State::kQueued);
  Move(job, State::kRunning);
  Move(job, State::kSucceeded, "second");
  const auto ends = After(0);
  ASSERT_THAT(ends, SizeIs(2));
  EXPECT_EQ(ends[0].job_id, job.id);
  EXPECT_EQ(ends[0].state, State::kFailed);
  EXPECT_EQ(ends[0].message, "first");
  EXPECT_EQ(ends[0].time, absl::FromUnixMicros(77));
  EXPECT_EQ(ends[1].state, State::kSucceeded);
  EXPECT_LT(ends[0].number, ends[1].number);
}

TEST_F(EndedJobsTest, AChangeThatEndsNothingAddsNothing) {
  Job job = Insert(QueuedJob(1));
  Move(job, State::kCancelled);
  EXPECT_THAT(After(0), SizeIs(1));
  Move(job, State::kCancelled, "again");
  EXPECT_THAT(After(0), SizeIs(1));
}

TEST_F(EndedJobsTest, ARowThatCannotBeReadEndsToo) {
  Insert(QueuedJob(1));
  EXPECT_TRUE(
      jobs_.MarkUnreadable(QueuedJob(1).id, "no sense", absl::FromUnixMicros(5))
          .ok());
  const auto ends = After(0);
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_EQ(ends[0].state, State::kFailed);
  EXPECT_EQ(ends[0].message, "no sense");
}

TEST_F(EndedJobsTest, NumbersAreNotUsedTwiceAfterARestart) {
  Job job = Insert(QueuedJob(1));
  Move(job, State::kCancelled);
  const int64_t number = After(0)[0].number;
  EXPECT_TRUE(ends_.Forget(number).ok());
  file_.reset();
  std::unique_ptr<Database> again = OpenOrDie(scratch_.file());
  JobStore jobs(*again);
  job.state = State::kQueued;
  EXPECT_TRUE(jobs.Update(job, {}).ok());
  job.state = State::kCancelled;
  EXPECT_TRUE(jobs.Update(job, {}).ok());
  auto ends = EndedJobs(*again).After(0, 9);
  ASSERT_TRUE(ends.ok());
  ASSERT_THAT(*ends, SizeIs(1));
  EXPECT_GT((*ends)[0].number, number);
}

TEST_F(EndedJobsTest, AJobThatIsDeletedTakesItsEndsAlong) {
  Job job = Insert(QueuedJob(1));
  Move(job, State::kCancelled);
  EXPECT_TRUE(jobs_.Delete(job.id).ok());
  EXPECT_THAT(After(0), IsEmpty());
  EXPECT_EQ(Number("SELECT count(*) FROM ended_jobs"), 0);
}

}  // namespace
}  // namespace mpsd::jobs
