// SPDX-License-Identifier: Apache-2.0
#include "server/store/logbook_store.h"

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using jobs::State;
using logbook::FieldValue;
using logbook::NewRecord;
using logbook::Note;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);

NewRecord MakeNew(const std::string& id, const std::string& owner = "ada") {
  NewRecord record;
  record.id = id;
  record.owner = owner;
  record.end_time = kNow;
  record.values.resize(std::size(logbook::kRecordFields));
  record.texts = absl::StrCat("texts of ", id);
  record.body = absl::StrCat("body of ", id, std::string("\0\xff", 2));
  return record;
}

class LogbookStoreTest : public testing::Test {
 protected:
  void Put(const NewRecord& record, int64_t unwritten = 0) {
    const absl::Status put = store_.Put(record, unwritten);
    ASSERT_TRUE(put.ok()) << put;
  }
  logbook::StoredRecord Get(const std::string& id) {
    auto record = store_.Get(id);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.value_or(logbook::StoredRecord());
  }
  std::vector<std::string> Ids(const logbook::RecordSearch& search = {}) {
    const auto found = store_.Search(search);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> ids;
    for (const auto& record : *found) ids.push_back(record.id);
    return ids;
  }
  jobs::Job EndedJob(int number, State state = State::kSucceeded) {
    jobs::Job job = QueuedJob(number);
    EXPECT_TRUE(jobs_.Insert(job, StateEvent(job, 1)).ok());
    if (state != State::kCancelled) Move(job, State::kRunning);
    Move(job, state);
    return job;
  }
  void Move(jobs::Job& job, State state) {
    job.state = state;
    if (jobs::IsFinal(state)) job.end_time = kNow;
    EXPECT_TRUE(jobs_.Update(job, {}).ok());
  }
  std::vector<std::string> Unwritten() {
    const auto ends = store_.Unwritten(0, 100);
    EXPECT_TRUE(ends.ok()) << ends.status();
    std::vector<std::string> ids;
    for (const auto& end : *ends) ids.push_back(end.job_id);
    return ids;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  SqliteJobStore jobs_{*database_};
  LogbookStore store_{*database_};
};

TEST_F(LogbookStoreTest, EachEndWaitsForItsRecord) {
  const jobs::Job a = EndedJob(1), b = EndedJob(2, State::kCancelled),
                  c = EndedJob(3, State::kFailed);
  EXPECT_THAT(Unwritten(), ElementsAre(a.id, b.id, c.id));
  const auto end = store_.UnwrittenOf(b.id);
  ASSERT_TRUE(end.ok() && end->has_value());
  Put(MakeNew(b.id), (*end)->number);
  EXPECT_THAT(Unwritten(), ElementsAre(a.id, c.id));
  EXPECT_FALSE(store_.UnwrittenOf(b.id)->has_value());
  ASSERT_TRUE(store_.Forget(store_.Unwritten(0, 1)->front().number).ok());
  EXPECT_THAT(Unwritten(), ElementsAre(c.id));
  // Another opening finds what was left.
  database_.reset();
  auto again = OpenOrDie(scratch_.file());
  LogbookStore other(*again);
  EXPECT_THAT(*other.Unwritten(0, 10), SizeIs(1));
}

TEST_F(LogbookStoreTest, AnEndThatCameMeanwhileIsNotForgotten) {
  jobs::Job job = EndedJob(1, State::kFailed);
  const int64_t first = store_.UnwrittenOf(job.id).value()->number;
  Move(job, State::kQueued);
  Move(job, State::kRunning);
  Move(job, State::kSucceeded);
  Put(MakeNew(job.id), first);
  EXPECT_THAT(Unwritten(), ElementsAre(job.id));
  EXPECT_GT(store_.UnwrittenOf(job.id).value()->number, first);
}

TEST_F(LogbookStoreTest, ARecordStaysWhenItsJobGoes) {
  const jobs::Job job = EndedJob(1);
  ASSERT_TRUE(store_.PutAttempts({{job.id, kNow, "one"}}).ok());
  Put(MakeNew(job.id), store_.UnwrittenOf(job.id).value()->number);
  const jobs::Job other = EndedJob(2);
  ASSERT_TRUE(jobs_.Delete(job.id).ok());
  ASSERT_TRUE(jobs_.Delete(other.id).ok());
  EXPECT_EQ(Get(job.id).body, MakeNew(job.id).body);
  EXPECT_THAT(Unwritten(), IsEmpty());
  EXPECT_THAT(*store_.Attempts(job.id), IsEmpty());
  // An attempt of a job that is gone leaves nothing behind.
  ASSERT_TRUE(store_.PutAttempts({{job.id, kNow, "late"}}).ok());
  EXPECT_THAT(*store_.Attempts(job.id), IsEmpty());
}

TEST_F(LogbookStoreTest, AttemptsAreReplacedAndOrdered) {
  const jobs::Job job = EndedJob(1);
  const std::string bytes("\0\xff{", 3);
  ASSERT_TRUE(store_
                  .PutAttempts({{job.id, kNow + absl::Seconds(1), "second"},
                                {job.id, kNow, "first"}})
                  .ok());
  ASSERT_TRUE(store_.PutAttempts({{job.id, kNow, bytes}}).ok());
  EXPECT_THAT(*store_.Attempts(job.id), ElementsAre(bytes, "second"));
}

TEST_F(LogbookStoreTest, ARecordWrittenAnewComesToTheFrontWithNotesAndTags) {
  for (const char* id : {"A", "B", "C"}) Put(MakeNew(id));
  ASSERT_TRUE(store_.AddNote("A", {kNow, "bob", "looks wrong", true}).ok());
  ASSERT_TRUE(store_.Tag("A", {"baseline", "x"}, {}).ok());
  NewRecord again = MakeNew("A");
  again.body = "anew";
  again.texts = "other words";
  again.metrics["f1"] = 0.5;
  Put(again);
  EXPECT_THAT(Ids(), ElementsAre("A", "C", "B"));
  const logbook::StoredRecord record = Get("A");
  EXPECT_EQ(record.body, "anew");
  EXPECT_THAT(record.tags, ElementsAre("baseline", "x"));
  ASSERT_THAT(record.notes, SizeIs(1));
  EXPECT_EQ(record.notes[0].author, "bob");
  EXPECT_EQ(record.notes[0].text, "looks wrong");
  EXPECT_TRUE(record.notes[0].rejected);
  EXPECT_EQ(record.notes[0].time, kNow);
  logbook::RecordSearch search;
  search.query.texts = {"texts of A"};
  EXPECT_THAT(Ids(search), IsEmpty());
  search.query.texts = {"other words"};
  EXPECT_THAT(Ids(search), ElementsAre("A"));
  search.query.texts = {"looks wrong"};
  EXPECT_THAT(Ids(search), ElementsAre("A"));
  // The latest one keeps its place.
  const int64_t number = record.number;
  Put(again);
  EXPECT_EQ(Get("A").number, number);
}

TEST_F(LogbookStoreTest, NotesAndTagsHaveBounds) {
  Put(MakeNew("A"));
  for (int i = 0; i < limits::kRecordNotes; ++i) {
    ASSERT_TRUE(store_.AddNote("A", {kNow, "bob", "a note", false}).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      store_.AddNote("A", {kNow, "bob", "one more", false})));
  EXPECT_THAT(Get("A").notes, SizeIs(limits::kRecordNotes));
  std::vector<std::string> tags;
  for (int i = 0; i < limits::kRecordTags; ++i) {
    tags.push_back(absl::StrCat("t", i));
  }
  ASSERT_TRUE(store_.Tag("A", tags, {}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store_.Tag("A", {"more"}, {})));
  EXPECT_TRUE(store_.Tag("A", {"more"}, {"t0"}).ok());
  EXPECT_THAT(Get("A").tags, SizeIs(limits::kRecordTags));
  EXPECT_TRUE(absl::IsNotFound(store_.AddNote("Z", {kNow, "b", "x", false})));
  EXPECT_TRUE(absl::IsNotFound(store_.Tag("Z", {"x"}, {})));
  EXPECT_TRUE(absl::IsNotFound(store_.Get("Z").status()));
}

TEST_F(LogbookStoreTest, FiftyWritersOfNotesLoseNone) {
  Put(MakeNew("A"));
  std::vector<std::thread> writers;
  writers.reserve(50);
  for (int i = 0; i < 50; ++i) {
    writers.emplace_back([this, i] {
      for (int k = 0; k < 4; ++k) {
        const std::string text = absl::StrCat("note ", i, " ", k);
        EXPECT_TRUE(store_.AddNote("A", {kNow, "u", text, false}).ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::set<std::string> texts;
  for (const Note& note : Get("A").notes) texts.insert(note.text);
  EXPECT_THAT(texts, SizeIs(200));
}

TEST_F(LogbookStoreTest, IdsAreFoundByTheirEnds) {
  Put(MakeNew("01AAAA1111"));
  Put(MakeNew("01AAAA2222", "bob"));
  EXPECT_THAT(*store_.FindByIdPart("01AA", std::nullopt, 10), SizeIs(2));
  EXPECT_THAT(*store_.FindByIdPart("01AA", "bob", 10),
              ElementsAre("01AAAA2222"));
  EXPECT_THAT(*store_.FindByIdPart("1111", std::nullopt, 10),
              ElementsAre("01AAAA1111"));
  EXPECT_THAT(*store_.FindByIdPart("AA1", std::nullopt, 10), IsEmpty());
  EXPECT_THAT(*store_.FindByIdPart("%", std::nullopt, 10), IsEmpty());
}

TEST_F(LogbookStoreTest, PruneTakesTheOldestOfWhoHasTheMost) {
  Put(MakeNew("B1", "bob"));
  for (int i = 0; i < 6; ++i) Put(MakeNew(absl::StrCat("A", i)));
  ASSERT_TRUE(store_.Tag("A0", {"baseline"}, {}).ok());
  ASSERT_TRUE(store_.AddNote("A1", {kNow, "u", "keep me", false}).ok());
  EXPECT_EQ(*store_.Prune(7), 0);
  EXPECT_EQ(*store_.Prune(4), 3);
  EXPECT_THAT(Ids(), ElementsAre("A5", "A1", "A0", "B1"));
  logbook::RecordSearch search;
  search.query.texts = {"texts of A2"};
  EXPECT_THAT(Ids(search), IsEmpty());
  search.query.texts = {"keep me"};
  EXPECT_THAT(Ids(search), ElementsAre("A1"));
}

// The text is nearly in each record: FTS5 compares thousands of places, 20 ms a
// record, and a user can write such notes by the thousand.
TEST_F(LogbookStoreTest, ASearchThatTakesTooLongIsGivenUp) {
  std::string nearly;
  for (int i = 0; i < 4; ++i) nearly += std::string(999, 'a') + "b";
  for (int i = 0; i < 200; ++i) {
    NewRecord record = MakeNew(absl::StrCat("R", i));
    record.texts = nearly;
    Put(record);
  }
  LogbookStore store(*database_, absl::Milliseconds(100));
  logbook::RecordSearch search;
  search.query.texts = {std::string(1000, 'a')};
  const absl::Time start = absl::Now();
  const absl::Status status = store.Search(search).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr("longer than 100ms"));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  // What comes next on the connection has its own time.
  search.query.texts = {"aab"};
  search.limit = 3;
  EXPECT_EQ(Ids(search).size(), 3);
}

TEST_F(LogbookStoreTest, WhoListsJobsWaitsForNoSearch) {
  absl::MutexLock lock(&database_->searcher().mutex());  // a search goes on
  EXPECT_TRUE(jobs_.List(jobs::ListFilter()).ok());
  EXPECT_FALSE(jobs_.Get("none").ok());
}

TEST_F(LogbookStoreTest, ABodyThatIsGoneHidesTheRecordAlone) {
  Put(MakeNew("A"));
  Put(MakeNew("B"));
  {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec(
        "DELETE FROM record_bodies WHERE record = "
        "(SELECT number FROM records WHERE id = 'A')");
  }
  EXPECT_THAT(Ids(), ElementsAre("B"));
}

// The jobs of an mpsd without a logbook get records too.
TEST_F(LogbookStoreTest, JobsThatEndedBeforeTheMigrationWait) {
  EndedJob(1);
  EndedJob(2);
  {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec(
        "DELETE FROM unwritten_records;"
        "INSERT INTO unwritten_records (job_id) "
        "SELECT id FROM jobs WHERE state IN (3, 4, 5) "
        "ORDER BY coalesce(end_time_us, create_time_us), number");
  }
  EXPECT_THAT(Unwritten(), ElementsAre(QueuedJob(1).id, QueuedJob(2).id));
}

}  // namespace
}  // namespace mpsd::store
