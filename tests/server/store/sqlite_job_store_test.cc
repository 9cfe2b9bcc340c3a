// SPDX-License-Identifier: Apache-2.0
#include "server/store/sqlite_job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/job_row.h"
#include "tests/server/store/scratch.h"

// What owners used of the device, as the job store keeps it.
// What the job store keeps for the verbs of a queue.

namespace mpsd::store {
namespace {

// --- job users ---------------------------------------------------------------

class JobUsersTest : public testing::Test {
 protected:
  std::string User(const std::string& id) {
    Connection& c = database_->reader();
    absl::MutexLock lock(&c.mutex());
    return UserOf(c, id);
  }
  jobs::Job Put(int number, const std::string& spec) {
    jobs::Job job = QueuedJob(number);
    job.spec_json = spec;
    EXPECT_TRUE(store_.Insert(job, StateEvent(job, 1)).ok());
    return job;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  SqliteJobStore store_{*database_};
};

TEST_F(JobUsersTest, PathsAndResultsThatAnUnfinishedJobNames) {
  const std::string id = Put(1, "{}").id, other = Put(2, "{}").id;
  EXPECT_EQ(User(id), "");
  jobs::Job by_path =
      Put(3, absl::StrCat(R"({"adapter": "/s/jobs/)", id, R"(/out/a"})"));
  EXPECT_EQ(User(id), by_path.id);
  EXPECT_EQ(User(other), "");
  by_path.state = jobs::State::kCancelled;
  ASSERT_TRUE(store_.Update(by_path, {}).ok());
  EXPECT_EQ(User(id), "");
  const jobs::Job by_name =
      Put(4, absl::StrCat(R"({"model": "job:)", id, R"("})"));
  EXPECT_EQ(User(id), by_name.id);
  EXPECT_EQ(*store_.UserOf(id), by_name.id);
  EXPECT_EQ(User(by_name.id), "") << "nobody is its own user";
}

// The beginning of an id is not the id.
TEST_F(JobUsersTest, APartOfAnIdIsNoId) {
  const std::string id = Put(1, "{}").id;
  Put(2,
      absl::StrCat(R"({"a": "/jobs/)", id, R"(X/", "b": "job:)", id, R"(X"})"));
  EXPECT_EQ(User(id), "");
}

// --- prior jobs --------------------------------------------------------------

using jobs::State;
using ::testing::ElementsAre;

class PriorJobsTest : public testing::Test {
 protected:
  void Insert(const jobs::Job& job) {
    absl::Status status = store_->Insert(job, StateEvent(job, 1));
    ASSERT_TRUE(status.ok()) << status;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  std::unique_ptr<SqliteJobStore> store_ =
      std::make_unique<SqliteJobStore>(*database_);
};

TEST_F(PriorJobsTest, TellsTheStatesOfThoseThatExist) {
  jobs::Job a = QueuedJob(1), b = QueuedJob(2);
  b.state = State::kSucceeded;
  Insert(a);
  Insert(b);
  const std::vector<std::string> ids = {a.id, "none", b.id, a.id, ""};
  const auto states = store_->StatesOf(ids);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_EQ(*states, (std::map<std::string, State>{{a.id, State::kQueued},
                                                   {b.id, State::kSucceeded}}));
}

TEST_F(PriorJobsTest, WhoWaitedForADeletedSuccessWaitsNoLonger) {
  jobs::Job done = QueuedJob(1), failed = QueuedJob(2), other = QueuedJob(3);
  done.state = State::kSucceeded;
  failed.state = State::kFailed;
  jobs::Job waiting = QueuedJob(4), ended = QueuedJob(5);
  waiting.after = {done.id, failed.id, other.id};
  ended.after = {done.id};
  ended.state = State::kCancelled;
  for (const auto& job : {done, failed, other, waiting, ended}) Insert(job);
  ASSERT_TRUE(store_->Delete(done.id).ok());
  EXPECT_THAT(store_->Get(waiting.id)->after, ElementsAre(failed.id, other.id));
  EXPECT_THAT(store_->Get(ended.id)->after, ElementsAre(done.id));
  // It never succeeded: who waits for it is held, and says so.
  ASSERT_TRUE(store_->Delete(failed.id).ok());
  EXPECT_THAT(store_->Get(waiting.id)->after, ElementsAre(failed.id, other.id));
}

// A list that somebody spoilt keeps nobody from deleting.
TEST_F(PriorJobsTest, ADamagedListIsLeftAlone) {
  jobs::Job done = QueuedJob(1), waiting = QueuedJob(2);
  done.state = State::kSucceeded;
  waiting.after = {done.id};
  Insert(done);
  Insert(waiting);
  {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec("UPDATE jobs SET after_jobs = after_jobs || ']'");
  }
  EXPECT_TRUE(store_->Delete(done.id).ok());
}

// --- owner use ---------------------------------------------------------------

TEST(OwnerUse, ComesWithTheRowOrNotAtAll) {
  Scratch scratch;
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  SqliteJobStore store(*database);
  jobs::Job job = QueuedJob(1);
  ASSERT_TRUE(store.Insert(job, StateEvent(job, 1)).ok());
  const absl::Time time = absl::FromUnixMicros(1'700'000'000'000'001);
  jobs::OwnerUse use{"ann", 12.5, time};
  ASSERT_TRUE(store.Update(job, {}, &use).ok());
  use = {std::string("'\0;--", 6), 1e9, time};
  ASSERT_TRUE(store.Update(job, {}, &use).ok());
  use = {"ann", 3, time + absl::Hours(1)};
  ASSERT_TRUE(store.Update(job, {}, &use).ok());
  // A row that is refused takes the use with it.
  use = {"ann", 99, time};
  EXPECT_FALSE(store.Update(QueuedJob(2), {}, &use).ok());
  job.state = jobs::State::kSucceeded;
  EXPECT_FALSE(store.Update(job, {}, &use).ok());

  auto uses = store.OwnerUses();
  ASSERT_TRUE(uses.ok()) << uses.status();
  ASSERT_EQ(uses->size(), 2u);
  std::sort(uses->begin(), uses->end(),
            [](const auto& a, const auto& b) { return a.owner < b.owner; });
  EXPECT_EQ((*uses)[0].owner, std::string("'\0;--", 6));
  EXPECT_EQ((*uses)[1].owner, "ann");
  EXPECT_EQ((*uses)[1].seconds, 3);
  EXPECT_EQ((*uses)[1].time, time + absl::Hours(1));
  ASSERT_TRUE(store.ForgetUses({"ann", "nobody"}).ok());
  EXPECT_EQ(store.OwnerUses()->size(), 1u);
}

// --- sqlite job store --------------------------------------------------------

using jobs::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SqliteJobStoreTest : public testing::Test {
 protected:
  void Insert(const jobs::Job& job) {
    absl::Status status = store_->Insert(job, StateEvent(job, 1));
    ASSERT_TRUE(status.ok()) << status;
  }
  void Update(const jobs::Job& job, std::vector<jobs::Event> events) {
    absl::Status status = store_->Update(job, events);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Reopen() {
    store_.reset();
    database_.reset();
    database_ = OpenOrDie(scratch_.file());
    store_ = std::make_unique<SqliteJobStore>(*database_);
  }
  std::vector<int64_t> Sequences(const std::string& id, int64_t after,
                                 int limit) {
    auto events = store_->Events(id, after, limit);
    EXPECT_TRUE(events.ok()) << events.status();
    std::vector<int64_t> sequences;
    for (const jobs::Event& event : *events) {
      EXPECT_EQ(event.job_id, id);
      sequences.push_back(event.sequence);
    }
    return sequences;
  }
  int Synchronous() {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    return c.database().execAndGet("PRAGMA synchronous").getInt();
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  std::unique_ptr<SqliteJobStore> store_ =
      std::make_unique<SqliteJobStore>(*database_);
};

TEST_F(SqliteJobStoreTest, WhatWasStoredIsThereAfterReopening) {
  jobs::Job job = QueuedJob(1);
  job.labels = {{"team", "nlp"}};
  Insert(job);
  job.state = State::kRunning;
  job.attempt = 1;
  Update(job, {StateEvent(job, 2), ProgressEvent(job, 3)});
  ASSERT_TRUE(store_
                  ->AddCheckpoint(
                      job.id, {{5, "/c/5", 10, 0.5}, absl::FromUnixMicros(99)})
                  .ok());
  Reopen();
  auto read = store_->Get(job.id);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->state, State::kRunning);
  EXPECT_EQ(read->labels, job.labels);
  EXPECT_THAT(Sequences(job.id, 0, 10), ElementsAre(1, 2, 3));
  auto checkpoints = store_->Checkpoints(job.id);
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  ASSERT_EQ(checkpoints->size(), 1u);
  EXPECT_EQ((*checkpoints)[0].path, "/c/5");
  EXPECT_EQ((*checkpoints)[0].create_time, absl::FromUnixMicros(99));
}

TEST_F(SqliteJobStoreTest, UnknownJobsAreNotFound) {
  const auto kNotFound = absl::StatusCode::kNotFound;
  EXPECT_EQ(store_->Get("x").status().code(), kNotFound);
  EXPECT_EQ(store_->OwnerOf("x").status().code(), kNotFound);
  EXPECT_EQ(store_->Events("x", 0, 1).status().code(), kNotFound);
  EXPECT_EQ(store_->LastSequence("x").status().code(), kNotFound);
  EXPECT_EQ(store_->Checkpoints("x").status().code(), kNotFound);
  EXPECT_EQ(store_->AddCheckpoint("x", {}).code(), kNotFound);
  EXPECT_EQ(store_->Update(QueuedJob(1), {}).code(), kNotFound);
}

TEST_F(SqliteJobStoreTest, AnIdempotencyKeyBelongsToOneJob) {
  jobs::Job first = QueuedJob(1), second = QueuedJob(2);
  first.idempotency_key = second.idempotency_key = "key";
  Insert(first);
  EXPECT_EQ(store_->Insert(second, StateEvent(second, 1)).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Get(second.id).status().code(),
            absl::StatusCode::kNotFound);
  auto found = store_->FindByIdempotencyKey("", "key");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->id, first.id);
  auto absent = store_->FindByIdempotencyKey("", "other");
  ASSERT_TRUE(absent.ok());
  EXPECT_FALSE(absent->has_value());
}

TEST_F(SqliteJobStoreTest, TwoOwnersMayChooseTheSameKey) {
  jobs::Job ada = QueuedJob(1), bob = QueuedJob(2), again = QueuedJob(3);
  ada.owner = again.owner = "ada";
  bob.owner = "bob";
  ada.idempotency_key = bob.idempotency_key = again.idempotency_key = "key";
  Insert(ada);
  Insert(bob);
  EXPECT_EQ(store_->Insert(again, StateEvent(again, 1)).code(),
            absl::StatusCode::kAlreadyExists);
  for (const jobs::Job& job : {ada, bob}) {
    auto found = store_->FindByIdempotencyKey(job.owner, "key");
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ((*found)->id, job.id);
    EXPECT_EQ(store_->OwnerOf(job.id).value_or("?"), job.owner);
  }
  auto none = store_->FindByIdempotencyKey("eve", "key");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST_F(SqliteJobStoreTest, JobsWithoutAKeyDoNotCollide) {
  Insert(QueuedJob(1));
  Insert(QueuedJob(2));
  auto none = store_->FindByIdempotencyKey("", "");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST_F(SqliteJobStoreTest, AnIdBelongsToOneJob) {
  Insert(QueuedJob(1));
  EXPECT_EQ(store_->Insert(QueuedJob(1), StateEvent(QueuedJob(1), 1)).code(),
            absl::StatusCode::kAlreadyExists);
}

// Walks every pair of states, through the store and past it.
TEST_F(SqliteJobStoreTest, OnlyTransitionsOfTheTableHappen) {
  int number = 0;
  for (State from : jobs::kAllStates) {
    for (State to : jobs::kAllStates) {
      jobs::Job job = QueuedJob(++number);
      job.state = from;
      Insert(job);
      const bool allowed = from == to || jobs::CanTransition(from, to);
      job.state = to;
      job.message = "moved";
      const absl::Status updated = store_->Update(job, {});
      EXPECT_EQ(updated.ok(), allowed)
          << jobs::Name(from) << " to " << jobs::Name(to);
      auto read = store_->Get(job.id);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->state, allowed ? to : from);
      EXPECT_EQ(read->message, allowed ? "moved" : "");
      if (!allowed) {
        EXPECT_EQ(updated.code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_THAT(std::string(updated.message()),
                    HasSubstr(std::string(jobs::Name(from))));
      }
    }
  }
}

TEST_F(SqliteJobStoreTest, TheDatabaseItselfRefusesOtherTransitions) {
  Connection& c = database_->writer();
  for (State from : jobs::kAllStates) {
    for (State to : jobs::kAllStates) {
      jobs::Job job =
          QueuedJob(static_cast<int>(from) * 10 + static_cast<int>(to));
      job.state = from;
      Insert(job);
      absl::MutexLock lock(&c.mutex());
      const bool allowed = from == to || jobs::CanTransition(from, to);
      const std::string sql = "UPDATE jobs SET state = ? WHERE id = ?";
      const int number = static_cast<int>(to);
      if (allowed) {
        EXPECT_EQ(Query(c, sql, number, job.id).Run(), 1);
      } else {
        EXPECT_THROW(Query(c, sql, number, job.id).Run(), SQLite::Exception);
      }
    }
  }
}

TEST_F(SqliteJobStoreTest, AnUpdateIsAllOrNothing) {
  jobs::Job job = QueuedJob(1);
  Insert(job);
  job.state = State::kRunning;
  // Sequence 1 is taken: the row must not change either.
  const absl::Status status =
      store_->Update(job, {StateEvent(job, 2), StateEvent(job, 1)});
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Get(job.id)->state, State::kQueued);
  EXPECT_THAT(Sequences(job.id, 0, 10), ElementsAre(1));
}

TEST_F(SqliteJobStoreTest, CountsFollowTheRows) {
  const auto counted = [this] {
    std::map<State, int64_t> counts;
    Connection& c = database_->reader();
    absl::MutexLock lock(&c.mutex());
    Query query(c, "SELECT state, count(*) FROM jobs GROUP BY state");
    while (query.Next()) {
      const auto state = static_cast<State>(query.Int());
      counts[state] = query.Int();
    }
    return counts;
  };
  EXPECT_EQ(*store_->CountByState(), counted());
  for (int i = 0; i < 4; ++i) Insert(QueuedJob(i));
  EXPECT_EQ(*store_->CountByState(), counted());
  const jobs::Job twice = QueuedJob(1);
  EXPECT_FALSE(store_->Insert(twice, StateEvent(twice, 1)).ok());
  EXPECT_EQ(*store_->CountByState(), counted());
  jobs::Job job = QueuedJob(2);
  for (const State state : {State::kRunning, State::kRunning, State::kQueued,
                            State::kRunning, State::kSucceeded}) {
    job.state = state;
    Update(job, {});
    EXPECT_EQ(*store_->CountByState(), counted());
  }
  job.state = State::kRunning;
  EXPECT_FALSE(store_->Update(job, {}).ok()) << "from an end";
  EXPECT_EQ(*store_->CountByState(), counted());
  ASSERT_TRUE(store_->Delete(job.id).ok());
  EXPECT_EQ(*store_->CountByState(), counted());
  Reopen();
  EXPECT_EQ(*store_->CountByState(), counted());
}

TEST_F(SqliteJobStoreTest, AnIdIsFoundByItsBeginningOrItsEnd) {
  const auto found = [this](const std::string& part, int limit = 9) {
    auto jobs = store_->FindByIdPart(part, limit);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    std::vector<std::string> names;
    for (const jobs::FoundJob& job : *jobs) names.push_back(job.name);
    return names;
  };
  jobs::Job older = QueuedJob(1);
  older.state = State::kFailed;
  Insert(older);
  Insert(QueuedJob(2));  // as old, but not ended
  for (int i = 1000; i < 2000; ++i) {
    jobs::Job job = QueuedJob(i);
    job.state = State::kSucceeded;
    Insert(job);
  }
  EXPECT_THAT(found(QueuedJob(1).id), ElementsAre("job 1"));
  EXPECT_THAT(found(QueuedJob(1).id.substr(0, 25)),
              ElementsAre("job 2", "job 1"));
  EXPECT_THAT(found("01J0", 2), ElementsAre("job 1999", "job 1998"));
  EXPECT_THAT(found("1234"), ElementsAre("job 1234"));
  EXPECT_THAT(found("0002"), ElementsAre("job 2"));
  EXPECT_THAT(found("0001"), ElementsAre());  // neither recent nor unfinished
  EXPECT_THAT(found("1_34"), ElementsAre());
  EXPECT_THAT(found("%"), ElementsAre());
}

TEST_F(SqliteJobStoreTest, ADeletedJobLeavesNothing) {
  jobs::Job job = QueuedJob(1);
  job.labels = {{"team", "nlp"}};
  job.idempotency_key = "once";
  Insert(job);
  Insert(QueuedJob(2));
  job.state = State::kRunning;
  Update(job, {StateEvent(job, 2)});
  ASSERT_TRUE(store_->AddCheckpoint(job.id, {{5, "/c/5", 1, 1}, {}}).ok());
  for (const jobs::Job& unfinished : {job, QueuedJob(2)}) {
    EXPECT_EQ(store_->Delete(unfinished.id).code(),
              absl::StatusCode::kFailedPrecondition);
  }
  job.state = State::kSucceeded;
  Update(job, {StateEvent(job, 3)});
  ASSERT_TRUE(store_->Delete(job.id).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Delete(job.id)));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(job.id).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->Events(job.id, 0, 9).status()));
  EXPECT_THAT(*store_->Ids(), ElementsAre(QueuedJob(2).id));
  {
    Connection& c = database_->reader();
    absl::MutexLock lock(&c.mutex());
    for (const char* table : {"labels", "checkpoints"}) {
      Query rows(c, std::string("SELECT count(*) FROM ") + table);
      ASSERT_TRUE(rows.Next());
      EXPECT_EQ(rows.Int(), 0) << table;
    }
    Query events(c, "SELECT count(*) FROM events");
    ASSERT_TRUE(events.Next());
    EXPECT_EQ(events.Int(), 1);  // of the other job
  }
  // Its key is free again.
  jobs::Job again = QueuedJob(3);
  again.idempotency_key = "once";
  Insert(again);
}

TEST_F(SqliteJobStoreTest, AJobWhoseFilesAnotherNeedsStays) {
  jobs::Job done = QueuedJob(1);
  done.state = State::kSucceeded;
  Insert(done);
  jobs::Job next = QueuedJob(2);
  next.spec_json =
      R"({"adapter": "/state/jobs/)" + done.id + R"(/out/adapter"})";
  Insert(next);
  const absl::Status refused = store_->Delete(done.id);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(next.id));
  next.state = State::kCancelled;
  Update(next, {StateEvent(next, 2)});
  EXPECT_TRUE(store_->Delete(done.id).ok());
}

TEST_F(SqliteJobStoreTest, CountsByState) {
  for (int i = 0; i < 5; ++i) {
    jobs::Job job = QueuedJob(i);
    if (i > 2) job.state = State::kSucceeded;
    Insert(job);
  }
  auto counts = store_->CountByState();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ((*counts)[State::kQueued], 3);
  EXPECT_EQ((*counts)[State::kSucceeded], 2);
  EXPECT_EQ((*counts)[State::kRunning], 0);
}

TEST_F(SqliteJobStoreTest, EventsArePagedInOrder) {
  jobs::Job job = QueuedJob(1);
  Insert(job);
  for (int64_t i = 2; i <= 6; ++i) Update(job, {ProgressEvent(job, i)});
  EXPECT_THAT(Sequences(job.id, 0, 2), ElementsAre(1, 2));
  EXPECT_THAT(Sequences(job.id, 2, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(Sequences(job.id, 6, 3), ElementsAre());
  EXPECT_EQ(*store_->LastSequence(job.id), 6);
}

TEST_F(SqliteJobStoreTest, OldProgressIsThinnedAndNothingElse) {
  jobs::Job job = QueuedJob(1);
  Insert(job);
  constexpr int64_t kLast = 2500;
  std::vector<jobs::Event> events;
  std::set<int64_t> notes;
  for (int64_t i = 2; i <= kLast; ++i) {
    if (i % 7 == 0) {
      events.push_back({job.id, i, absl::UnixEpoch(), jobs::Note{"n"}});
      notes.insert(i);
    } else {
      events.push_back(ProgressEvent(job, i));
    }
    if (events.size() == 50) {
      Update(job, events);
      events.clear();
    }
  }
  Update(job, events);
  std::vector<int64_t> expected;
  for (int64_t i = 1; i <= kLast; ++i) {
    const bool kept = i == 1 || i > kLast - 1000 || i % 10 == 0;
    if (kept || notes.count(i) > 0) expected.push_back(i);
  }
  EXPECT_EQ(Sequences(job.id, 0, 10000), expected);
  EXPECT_EQ(*store_->LastSequence(job.id), kLast);
}

TEST_F(SqliteJobStoreTest, ProgressAloneIsNotFsyncedEverythingElseIs) {
  jobs::Job job = QueuedJob(1);
  constexpr int kNormal = 1, kFull = 2;
  Insert(job);
  EXPECT_EQ(Synchronous(), kFull);
  job.state = State::kRunning;
  Update(job, {ProgressEvent(job, 2)});  // a new state
  EXPECT_EQ(Synchronous(), kFull);
  Update(job, {ProgressEvent(job, 3), ProgressEvent(job, 4)});
  EXPECT_EQ(Synchronous(), kNormal);
  Update(job, {});
  EXPECT_EQ(Synchronous(), kFull);
  Update(job, {ProgressEvent(job, 5)});
  ASSERT_TRUE(store_->AddCheckpoint(job.id, {}).ok());
  EXPECT_EQ(Synchronous(), kFull);
  Update(job, {ProgressEvent(job, 6)});
  job.cancel_requested = true;
  Update(job, {ProgressEvent(job, 7)});
  EXPECT_EQ(Synchronous(), kFull);
  Update(job, {ProgressEvent(job, 8)});
  Insert(QueuedJob(2));
  EXPECT_EQ(Synchronous(), kFull);
}

TEST_F(SqliteJobStoreTest, CheckpointsReplaceTheirStepAndAllThatAreGone) {
  jobs::Job job = QueuedJob(1);
  Insert(job);
  const auto add = [&](int64_t step, int64_t size,
                       const std::vector<std::string>& removed) {
    const jobs::Checkpoint checkpoint{
        {step, "/c/" + std::to_string(step), size, 0.5, removed},
        absl::UnixEpoch()};
    ASSERT_TRUE(store_->AddCheckpoint(job.id, checkpoint).ok());
  };
  add(10, 1, {});
  add(5, 2, {});
  add(7, 2, {});
  add(15, 3, {"/c/5", "/c/none", "/c/7"});
  add(15, 4, {});
  auto checkpoints = store_->Checkpoints(job.id);
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  ASSERT_EQ(checkpoints->size(), 2u);
  EXPECT_EQ((*checkpoints)[0].step, 10);
  EXPECT_EQ((*checkpoints)[1].step, 15);
  EXPECT_EQ((*checkpoints)[1].bytes, 4);
  EXPECT_TRUE((*checkpoints)[0].removed_paths.empty());
}

TEST_F(SqliteJobStoreTest, ReadersAndWritersRunTogether) {
  constexpr int kWriters = 3, kReaders = 3, kUpdates = 60;
  for (int i = 0; i < kWriters; ++i) {
    jobs::Job job = QueuedJob(i);
    job.state = State::kRunning;
    Insert(job);
  }
  std::atomic<int> writing{kWriters};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([this, w, &writing] {
      jobs::Job job = QueuedJob(w);
      job.state = State::kRunning;
      for (int i = 0; i < kUpdates; ++i) {
        job.attempt = i;
        EXPECT_TRUE(store_->Update(job, {ProgressEvent(job, i + 2)}).ok());
      }
      --writing;
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([this, r, &writing] {
      const std::string id = QueuedJob(r).id;
      int64_t seen = 0;
      while (writing > 0 || seen < kUpdates + 1) {
        auto events = store_->Events(id, seen, 7);
        ASSERT_TRUE(events.ok()) << events.status();
        for (const jobs::Event& event : *events) {
          ASSERT_EQ(event.sequence, ++seen);  // in order, none missed
        }
        ASSERT_TRUE(store_->List({}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int w = 0; w < kWriters; ++w) {
    EXPECT_EQ(store_->Get(QueuedJob(w).id)->attempt, kUpdates - 1);
  }
}

// The transaction is undone and the store goes on.
TEST_F(SqliteJobStoreTest, AFullDiskIsResourceExhausted) {
  Connection& c = database_->writer();
  {
    absl::MutexLock lock(&c.mutex());
    const int pages = c.database().execAndGet("PRAGMA page_count").getInt();
    c.database().execAndGet("PRAGMA max_page_count=" + std::to_string(pages));
  }
  jobs::Job job = QueuedJob(1);
  job.spec_json = std::string(1 << 20, 'x');
  const absl::Status status = store_->Insert(job, StateEvent(job, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->Get(job.id).status().code(), absl::StatusCode::kNotFound);
  job.spec_json = "{}";
  EXPECT_TRUE(store_->Insert(job, StateEvent(job, 1)).ok());
}

// --- queue rows --------------------------------------------------------------

TEST(QueueRows, ADrainIsKeptUntilItEnds) {
  Scratch scratch;
  {
    const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
    SqliteJobStore store(*database);
    EXPECT_EQ(*store.Drain(), std::nullopt);
    ASSERT_TRUE(store.SetDrain("one").ok());
    ASSERT_TRUE(store.SetDrain(std::string("t'w\0o", 5)).ok());
  }
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  SqliteJobStore store(*database);
  EXPECT_EQ(*store.Drain(), std::string("t'w\0o", 5));
  ASSERT_TRUE(store.SetDrain(std::nullopt).ok());
  ASSERT_TRUE(store.SetDrain(std::nullopt).ok());
  EXPECT_EQ(*store.Drain(), std::nullopt);
  ASSERT_TRUE(store.SetDrain("").ok()) << "a reason may be empty";
  EXPECT_EQ(*store.Drain(), "");
}

TEST(QueueRows, TheCheckpointsOfOneJobAreForgotten) {
  Scratch scratch;
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  SqliteJobStore store(*database);
  const jobs::Job one = QueuedJob(1), two = QueuedJob(2);
  for (const jobs::Job& job : {one, two}) {
    ASSERT_TRUE(store.Insert(job, StateEvent(job, 1)).ok());
    jobs::Checkpoint checkpoint;
    checkpoint.step = 5;
    checkpoint.path = "/c/" + job.id;
    ASSERT_TRUE(store.AddCheckpoint(job.id, checkpoint).ok());
  }
  ASSERT_TRUE(store.ForgetCheckpoints(one.id).ok());
  ASSERT_TRUE(store.ForgetCheckpoints("no job").ok());
  EXPECT_TRUE(store.Checkpoints(one.id)->empty());
  EXPECT_EQ(store.Checkpoints(two.id)->size(), 1u);
}

TEST(QueueRows, AnUnreadableJobIsHeldNoMore) {
  Scratch scratch;
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  SqliteJobStore store(*database);
  jobs::Job job = QueuedJob(1);
  job.held = true;
  job.hold_reason = "by ann";
  ASSERT_TRUE(store.Insert(job, StateEvent(job, 1)).ok());
  EXPECT_TRUE(store.Get(job.id)->held);
  EXPECT_EQ(store.Get(job.id)->hold_reason, "by ann");
  ASSERT_TRUE(store.MarkUnreadable(job.id, "spoilt", job.create_time).ok());
  EXPECT_FALSE(store.Get(job.id)->held);
}

// --- unreadable row ----------------------------------------------------------

TEST(UnreadableRow, IsFoundAndCanBeGivenUp) {
  Scratch scratch;
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  SqliteJobStore store(*database);
  for (int number : {1, 2, 3}) {
    jobs::Job job = QueuedJob(number);
    job.owner = "ada";
    ASSERT_TRUE(store.Insert(job, StateEvent(job, 1)).ok());
  }
  jobs::Job running = QueuedJob(2);
  running.owner = "ada";
  running.state = jobs::State::kRunning;
  ASSERT_TRUE(store.Update(running, {}).ok());
  const std::vector<std::string> ids = {QueuedJob(1).id, QueuedJob(2).id,
                                        QueuedJob(3).id};
  {
    Connection& c = database->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec(
        "UPDATE jobs SET exit_reason = 'Bored', progress = 'x', "
        "metrics = '[]', best_evaluation = '7', warnings = '{}', kind = 99 "
        "WHERE number < 3");
  }
  EXPECT_EQ(*store.Unfinished(), ids);
  for (const std::string& id : {ids[0], ids[1]}) {
    EXPECT_EQ(store.Get(id).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(store.OwnerOf(id).value_or("?"), "ada");
    const absl::Status marked =
        store.MarkUnreadable(id, "unreadable row", absl::FromUnixSeconds(9));
    ASSERT_TRUE(marked.ok()) << marked;
    const auto job = store.Get(id);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->state, jobs::State::kFailed);
    EXPECT_EQ(job->message, "unreadable row");
    EXPECT_EQ(job->end_time, absl::FromUnixSeconds(9));
    const auto events = store.Events(id, 0, 10);
    ASSERT_TRUE(events.ok()) << events.status();
    const auto& last = std::get<jobs::StateChanged>(events->back().body);
    EXPECT_EQ(last.state, jobs::State::kFailed);
  }
  EXPECT_EQ(*store.Unfinished(), std::vector<std::string>{ids[2]});
  EXPECT_EQ(store.MarkUnreadable("X", "", absl::UnixEpoch()).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd::store
