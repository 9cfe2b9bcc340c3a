// SPDX-License-Identifier: Apache-2.0
// What the job store keeps for the verbs of a queue.
#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

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

}  // namespace
}  // namespace mpsd::store
