// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

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
