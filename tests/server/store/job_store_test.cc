// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_store.h"

#include <algorithm>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;

using JobStoreTest = StoreFixture;

TEST_F(JobStoreTest, AJobIsUsedByThoseThatHaveNotEnded) {
  Job done = QueuedJob(1);
  done.state = State::kSucceeded;
  const std::string id = Insert(done).id;
  // What a text says is no use.
  Job texts = QueuedJob(2);
  texts.name = absl::StrCat("x/jobs/", id, "/y");
  texts.spec_json = absl::StrCat(R"({"name": "/jobs/)", id,
                                 R"(/", "model": "job:)", id, R"("})");
  Insert(texts);
  EXPECT_TRUE(jobs_.CheckUnused(id).ok());
  Job user = QueuedJob(3);
  user.uses = {id, "no such job"};
  Insert(user);
  EXPECT_THAT(Ok(jobs_.Get(user.id)).uses, ElementsAre(id));
  EXPECT_TRUE(jobs_.CheckUnused(texts.id).ok());
  for (int time : {1, 2}) {
    EXPECT_THAT(jobs_.CheckUnused(id), Fails(kFailedPrecondition, user.id));
    EXPECT_THAT(jobs_.Delete(id), Fails(kFailedPrecondition, user.id));
    user.state = State::kCancelled;
    Update(user);
    EXPECT_TRUE(jobs_.CheckUnused(id).ok());
    if (time == 2) break;
    user.state = State::kQueued;  // tried again
    Update(user);
  }
  EXPECT_TRUE(jobs_.Delete(id).ok());
}

TEST_F(JobStoreTest, WhoWaitedForADeletedSuccessWaitsNoLonger) {
  Job done = QueuedJob(1), failed = QueuedJob(2), other = QueuedJob(3);
  done.state = State::kSucceeded;
  failed.state = State::kFailed;
  Job waiting = QueuedJob(4), ended = QueuedJob(5);
  waiting.after = {done.id, failed.id, other.id};
  ended.after = {done.id};
  ended.state = State::kCancelled;
  for (const auto& job : {done, failed, other, waiting, ended}) Insert(job);
  ASSERT_TRUE(jobs_.Delete(done.id).ok());
  EXPECT_THAT(jobs_.Get(waiting.id)->after, ElementsAre(failed.id, other.id));
  EXPECT_THAT(jobs_.Get(ended.id)->after, ElementsAre(done.id));
  // It never succeeded: who waits for it is held, and says so.
  ASSERT_TRUE(jobs_.Delete(failed.id).ok());
  EXPECT_THAT(jobs_.Get(waiting.id)->after, ElementsAre(failed.id, other.id));
}

// A damaged list does not prevent a deletion.
TEST_F(JobStoreTest, ADamagedListIsLeftAlone) {
  Job done = QueuedJob(1), waiting = QueuedJob(2);
  done.state = State::kSucceeded;
  waiting.after = {done.id};
  Insert(done);
  Insert(waiting);
  Execute("UPDATE jobs SET after_jobs = after_jobs || ']'");
  EXPECT_TRUE(jobs_.Delete(done.id).ok());
}

TEST_F(JobStoreTest, UseComesWithTheRowOrNotAtAll) {
  Job job = Insert(QueuedJob(1));
  const absl::Time time = absl::FromUnixMicros(1'700'000'000'000'001);
  OwnerUse use{"ann", 12.5, time};
  ASSERT_TRUE(jobs_.Update(job, {}, &use).ok());
  use = {std::string("'\0;--", 6), 1e9, time};
  ASSERT_TRUE(jobs_.Update(job, {}, &use).ok());
  use = {"ann", 3, time + absl::Hours(1)};
  ASSERT_TRUE(jobs_.Update(job, {}, &use).ok());
  // A row that is refused takes the use with it.
  use = {"ann", 99, time};
  EXPECT_FALSE(jobs_.Update(QueuedJob(2), {}, &use).ok());
  job.state = State::kSucceeded;
  EXPECT_FALSE(jobs_.Update(job, {}, &use).ok());

  auto uses = Ok(jobs_.OwnerUses());
  ASSERT_EQ(uses.size(), 2u);
  std::sort(uses.begin(), uses.end(),
            [](const auto& a, const auto& b) { return a.owner < b.owner; });
  EXPECT_EQ(uses[0].owner, std::string("'\0;--", 6));
  EXPECT_EQ(uses[1].owner, "ann");
  EXPECT_EQ(uses[1].seconds, 3);
  EXPECT_EQ(uses[1].time, time + absl::Hours(1));
  ASSERT_TRUE(jobs_.ForgetUses({"ann", "nobody"}).ok());
  EXPECT_EQ(jobs_.OwnerUses()->size(), 1u);
}

std::vector<int64_t> Sequences(JobStore& store, const std::string& id,
                               int64_t after, int limit) {
  std::vector<int64_t> sequences;
  const std::vector<Event> events = *store.Events(id, after, limit);
  for (const Event& event : events) {
    EXPECT_EQ(event.job_id, id);
    sequences.push_back(event.sequence);
  }
  return sequences;
}

TEST_F(JobStoreTest, UnknownJobsAreNotFound) {
  EXPECT_THAT(jobs_.Get("x"), Fails(kNotFound));
  EXPECT_THAT(jobs_.OwnerOf("x"), Fails(kNotFound));
  EXPECT_THAT(jobs_.Events("x", 0, 1), Fails(kNotFound));
  EXPECT_THAT(jobs_.LastSequence("x"), Fails(kNotFound));
  EXPECT_THAT(jobs_.Checkpoints("x"), Fails(kNotFound));
  EXPECT_THAT(jobs_.AddCheckpoint("x", {}), Fails(kNotFound));
  EXPECT_THAT(jobs_.Update(QueuedJob(1), {}), Fails(kNotFound));
}

TEST_F(JobStoreTest, AKeyBelongsToOneJobOfAnOwner) {
  Job ada = QueuedJob(1), unowned = QueuedJob(2), again = QueuedJob(3);
  ada.owner = again.owner = "ada";
  ada.idempotency_key = unowned.idempotency_key = again.idempotency_key = "key";
  Insert(ada);
  Insert(unowned);
  EXPECT_THAT(jobs_.Insert(again, StateEvent(again, 1)), Fails(kAlreadyExists));
  EXPECT_THAT(jobs_.Get(again.id), Fails(kNotFound));
  for (const Job& job : {ada, unowned}) {
    auto found = jobs_.FindByIdempotencyKey(job.owner, "key");
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ((*found)->id, job.id);
    EXPECT_EQ(jobs_.OwnerOf(job.id).value_or("?"), job.owner);
  }
  // Jobs without a key do not collide.
  Insert(QueuedJob(4));
  Insert(QueuedJob(5));
  for (const auto& [owner, key] :
       {std::pair("eve", "key"), {"ada", "other"}, {"", ""}}) {
    auto none = jobs_.FindByIdempotencyKey(owner, key);
    ASSERT_TRUE(none.ok());
    EXPECT_FALSE(none->has_value()) << owner << key;
  }
}

// Walks every pair of states, through the store and past it.
TEST_F(JobStoreTest, OnlyTransitionsOfTheTableHappen) {
  int number = 0;
  for (State from : kAllStates) {
    for (State to : kAllStates) {
      SCOPED_TRACE(testing::Message() << Name(from) << " to " << Name(to));
      Job job = QueuedJob(++number), past = QueuedJob(++number);
      job.state = past.state = from;
      Insert(job);
      Insert(past);
      const bool allowed = from == to || CanTransition(from, to);
      job.state = to;
      job.message = "moved";
      const absl::Status updated = jobs_.Update(job, {});
      EXPECT_EQ(updated.ok(), allowed) << updated;
      auto read = Ok(jobs_.Get(job.id));
      EXPECT_EQ(read.state, allowed ? to : from);
      EXPECT_EQ(read.message, allowed ? "moved" : "");
      const std::string sql =
          absl::StrCat("UPDATE jobs SET state = ", static_cast<int>(to),
                       " WHERE id = '", past.id, "'");
      if (allowed) {
        Execute(sql);
      } else {
        EXPECT_THAT(updated,
                    Fails(kFailedPrecondition, std::string(Name(from))));
        EXPECT_THROW(Execute(sql), SQLite::Exception);
      }
      EXPECT_EQ(jobs_.Get(past.id)->state, allowed ? to : from);
    }
  }
}

TEST_F(JobStoreTest, AnUpdateIsAllOrNothing) {
  Job job = QueuedJob(1);
  Insert(job);
  job.state = State::kRunning;
  // Sequence 1 is taken: the row must not change either.
  EXPECT_THAT(jobs_.Update(job, {StateEvent(job, 2), StateEvent(job, 1)}),
              Fails(kAlreadyExists));
  EXPECT_EQ(jobs_.Get(job.id)->state, State::kQueued);
  EXPECT_THAT(Sequences(jobs_, job.id, 0, 10), ElementsAre(1));
}

TEST_F(JobStoreTest, AJobIsFoundByTheEndsOfItsIdAndByItsName) {
  const auto find = [this](const JobText& text, int limit = 9) {
    auto jobs = jobs_.FindByText(text, limit);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    std::vector<std::string> names;
    for (const FoundJob& job : *jobs) names.push_back(job.name);
    return names;
  };
  const auto found = [&](const std::string& part, int limit = 9) {
    return find({.id_part = part}, limit);
  };
  Job older = QueuedJob(1);
  older.state = State::kFailed;
  Insert(older);
  Insert(QueuedJob(2));
  for (int i = 1000; i < 2000; ++i) {
    Job job = QueuedJob(i);
    job.state = State::kSucceeded;
    if (i == 1999) job.name = "job 1998";
    Insert(job);
  }
  EXPECT_THAT(found(QueuedJob(1).id), ElementsAre("job 1"));
  EXPECT_THAT(found(QueuedJob(1).id.substr(0, 25)),
              ElementsAre("job 2", "job 1"));
  EXPECT_THAT(found("01J0", 2), ElementsAre("job 1998", "job 1998"));
  EXPECT_THAT(found("1234"), ElementsAre("job 1234"));
  EXPECT_THAT(found("0001"), ElementsAre("job 1"));
  EXPECT_THAT(found("1_34"), ElementsAre());
  EXPECT_THAT(found("%"), ElementsAre());
  EXPECT_THAT(found(""), ElementsAre());
  EXPECT_THAT(find({.name = "job 1998"}), SizeIs(2));
  EXPECT_THAT(find({.name = "job 1998"}, 1), SizeIs(1));
  EXPECT_THAT(find({.name = "JOB 1997"}), IsEmpty());
  EXPECT_THAT(find({.name = "job 1997", .owner = older.owner}), SizeIs(1));
  EXPECT_THAT(find({.name = "job 1997", .owner = "eve"}), IsEmpty());
  EXPECT_THAT(find({.id_part = "1997", .name = "job 1997"}), SizeIs(1));
  older.id = QueuedJob(3).id;
  older.name = std::string(60, 'x') + "A";
  Insert(older);
  EXPECT_THAT(find({.name = older.name}), SizeIs(1));
  EXPECT_THAT(find({.name = std::string(60, 'x') + "B"}), IsEmpty());
}

TEST_F(JobStoreTest, ADeletedJobLeavesNothing) {
  Job job = QueuedJob(1);
  job.labels = {{"team", "nlp"}};
  job.idempotency_key = "once";
  Insert(job);
  Insert(QueuedJob(2));
  job.state = State::kRunning;
  Update(job, {StateEvent(job, 2)});
  ASSERT_TRUE(jobs_.AddCheckpoint(job.id, {{5, "/c/5", 1, 1}, {}}).ok());
  for (const Job& unfinished : {job, QueuedJob(2)}) {
    EXPECT_THAT(jobs_.Delete(unfinished.id), Fails(kFailedPrecondition));
  }
  job.state = State::kSucceeded;
  Update(job, {StateEvent(job, 3)});
  ASSERT_TRUE(jobs_.Delete(job.id).ok());
  EXPECT_THAT(jobs_.Delete(job.id), Fails(kNotFound));
  EXPECT_THAT(jobs_.Get(job.id), Fails(kNotFound));
  EXPECT_THAT(jobs_.Events(job.id, 0, 9), Fails(kNotFound));
  EXPECT_THAT(*jobs_.Ids(), ElementsAre(QueuedJob(2).id));
  EXPECT_EQ(Number("SELECT count(*) FROM labels"), 0);
  EXPECT_EQ(Number("SELECT count(*) FROM checkpoints"), 0);
  EXPECT_EQ(Number("SELECT count(*) FROM events"), 1) << "of the other job";
  // Its key is free again.
  Job again = QueuedJob(3);
  again.idempotency_key = "once";
  Insert(again);
}

TEST_F(JobStoreTest, OldProgressIsThinnedAndNothingElse) {
  Job job = QueuedJob(1);
  Insert(job);
  constexpr int64_t kLast = 2500;
  std::vector<Event> events;
  std::set<int64_t> notes;
  for (int64_t i = 2; i <= kLast; ++i) {
    if (i % 7 == 0) {
      events.push_back({job.id, i, absl::UnixEpoch(), Note{"n"}});
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
  EXPECT_EQ(Sequences(jobs_, job.id, 0, 10000), expected);
  EXPECT_EQ(*jobs_.LastSequence(job.id), kLast);
}

TEST_F(JobStoreTest, ProgressAloneIsNotFsyncedEverythingElseIs) {
  Job job = QueuedJob(1);
  constexpr int kNormal = 1, kFull = 2;
  Insert(job);
  EXPECT_EQ(Number("PRAGMA synchronous"), kFull);
  job.state = State::kRunning;
  Update(job, {ProgressEvent(job, 2)});  // a new state
  EXPECT_EQ(Number("PRAGMA synchronous"), kFull);
  Update(job, {ProgressEvent(job, 3), ProgressEvent(job, 4)});
  EXPECT_EQ(Number("PRAGMA synchronous"), kNormal);
  Update(job);
  EXPECT_EQ(Number("PRAGMA synchronous"), kFull);
  Update(job, {ProgressEvent(job, 5)});
  ASSERT_TRUE(jobs_.AddCheckpoint(job.id, {}).ok());
  EXPECT_EQ(Number("PRAGMA synchronous"), kFull);
  Update(job, {ProgressEvent(job, 6)});
  job.cancel_requested = true;
  Update(job, {ProgressEvent(job, 7)});
  EXPECT_EQ(Number("PRAGMA synchronous"), kFull);
  Update(job, {ProgressEvent(job, 8)});
  Insert(QueuedJob(2));
  EXPECT_EQ(Number("PRAGMA synchronous"), kFull);
}

TEST_F(JobStoreTest, CheckpointsReplaceTheirStepAndAllThatAreGone) {
  Job job = QueuedJob(1);
  Insert(job);
  const auto add = [&](int64_t step, int64_t size,
                       const std::vector<std::string>& removed) {
    const Checkpoint checkpoint{
        {step, "/c/" + std::to_string(step), size, 0.5, removed},
        absl::UnixEpoch()};
    ASSERT_TRUE(jobs_.AddCheckpoint(job.id, checkpoint).ok());
  };
  add(10, 1, {});
  add(5, 2, {});
  add(7, 2, {});
  add(15, 3, {"/c/5", "/c/none", "/c/7"});
  add(15, 4, {});
  auto checkpoints = Ok(jobs_.Checkpoints(job.id));
  ASSERT_EQ(checkpoints.size(), 2u);
  EXPECT_EQ(checkpoints[0].step, 10);
  EXPECT_EQ(checkpoints[1].step, 15);
  EXPECT_EQ(checkpoints[1].bytes, 4);
  EXPECT_TRUE(checkpoints[0].removed_paths.empty());
}

TEST_F(JobStoreTest, ReadersAndWritersRunTogether) {
  constexpr int kWriters = 3, kReaders = 3, kUpdates = 60;
  for (int i = 0; i < kWriters; ++i) {
    Job job = QueuedJob(i);
    job.state = State::kRunning;
    Insert(job);
  }
  std::atomic<int> writing{kWriters};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([this, w, &writing] {
      Job job = QueuedJob(w);
      job.state = State::kRunning;
      for (int i = 0; i < kUpdates; ++i) {
        job.attempt = i;
        EXPECT_TRUE(jobs_.Update(job, {ProgressEvent(job, i + 2)}).ok());
      }
      --writing;
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([this, r, &writing] {
      const std::string id = QueuedJob(r).id;
      int64_t seen = 0;
      while (writing > 0 || seen < kUpdates + 1) {
        auto events = Ok(jobs_.Events(id, seen, 7));
        for (const Event& event : events) {
          ASSERT_EQ(event.sequence, ++seen);  // in order, no event missed
        }
        ASSERT_TRUE(jobs_.List({}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int w = 0; w < kWriters; ++w) {
    EXPECT_EQ(jobs_.Get(QueuedJob(w).id)->attempt, kUpdates - 1);
  }
}

// The transaction is undone and the store continues.
TEST_F(JobStoreTest, AFullDiskIsResourceExhausted) {
  const int64_t pages = Number("PRAGMA page_count");
  Number(absl::StrCat("PRAGMA max_page_count=", pages));
  Job job = QueuedJob(1);
  job.spec_json = std::string(1 << 20, 'x');
  EXPECT_THAT(jobs_.Insert(job, StateEvent(job, 1)), Fails(kResourceExhausted));
  EXPECT_THAT(jobs_.Get(job.id), Fails(kNotFound));
  job.spec_json = "{}";
  Insert(job);
}

}  // namespace
}  // namespace mpsd::jobs
