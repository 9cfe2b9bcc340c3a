// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_list.h"

#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using jobs::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobListTest : public testing::Test {
 protected:
  void Insert(const jobs::Job& job) {
    absl::Status status = store_->Insert(job, StateEvent(job, 1));
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<std::string> Ids(const jobs::ListFilter& filter) {
    auto jobs = store_->List(filter);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    std::vector<std::string> ids;
    for (const jobs::Job& job : *jobs) {
      ids.push_back(job.id.substr(job.id.size() - 2));
    }
    return ids;
  }
  void Execute(const std::string& sql) {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec(sql);
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  std::unique_ptr<SqliteJobStore> store_ =
      std::make_unique<SqliteJobStore>(*database_);
};

TEST_F(JobListTest, ListIsNewestFirstAndPaged) {
  for (int i = 10; i < 15; ++i) Insert(QueuedJob(i));
  EXPECT_THAT(Ids({}), ElementsAre("14", "13", "12", "11", "10"));
  jobs::ListFilter page;
  page.limit = 2;
  EXPECT_THAT(Ids(page), ElementsAre("14", "13"));
  page.before_id = QueuedJob(13).id;
  EXPECT_THAT(Ids(page), ElementsAre("12", "11"));
  page.before_id = QueuedJob(11).id;
  EXPECT_THAT(Ids(page), ElementsAre("10"));
  page.before_id = QueuedJob(10).id;
  EXPECT_THAT(Ids(page), ElementsAre());
}

TEST_F(JobListTest, ListFilters) {
  for (int i = 10; i < 16; ++i) {
    jobs::Job job = QueuedJob(i);
    job.state = i % 2 == 0 ? State::kQueued : State::kFailed;
    job.owner = i < 13 ? "ana" : "bo'; DROP TABLE jobs; --";
    job.labels["team"] = i % 3 == 0 ? "nlp" : "cv";
    if (i > 12) job.labels["new"] = "";
    Insert(job);
  }
  jobs::ListFilter filter;
  filter.states = {State::kFailed};
  EXPECT_THAT(Ids(filter), ElementsAre("15", "13", "11"));
  filter.states = {State::kFailed, State::kQueued, State::kRunning};
  EXPECT_EQ(Ids(filter).size(), 6u);
  filter.owner = "bo'; DROP TABLE jobs; --";
  EXPECT_THAT(Ids(filter), ElementsAre("15", "14", "13"));
  filter.labels = {{"team", "cv"}};
  EXPECT_THAT(Ids(filter), ElementsAre("14", "13"));
  filter.owner = "";
  filter.labels = {{"team", "nlp"}, {"new", ""}};
  EXPECT_THAT(Ids(filter), ElementsAre("15"));
  filter.labels = {{"team", "none"}};
  EXPECT_THAT(Ids(filter), ElementsAre());
}

// Against every page of every label, and both, by a look at all jobs.
TEST_F(JobListTest, LabelledJobsArePagedInOrder) {
  constexpr int kJobs = 60;
  for (int i = 0; i < kJobs; ++i) {
    jobs::Job job = QueuedJob(10 + i);
    job.labels["common"] = "x";
    job.labels["run"] = std::to_string(i % 7);
    if (i % 20 == 3) job.state = State::kFailed;
    Insert(job);
  }
  jobs::ListFilter filter;
  filter.limit = 4;
  for (const auto& labels : std::vector<std::map<std::string, std::string>>{
           {{"common", "x"}},
           {{"run", "3"}},
           {{"common", "x"}, {"run", "3"}}}) {
    filter.labels = labels;
    std::vector<std::string> expected;
    for (int i = kJobs - 1; i >= 0; --i) {
      if (labels.count("run") > 0 && i % 7 != 3) continue;
      expected.push_back(std::to_string(10 + i));
    }
    std::vector<std::string> all;
    filter.before_id.clear();
    for (;;) {
      auto page = store_->List(filter);
      ASSERT_TRUE(page.ok()) << page.status();
      if (page->empty()) break;
      for (const jobs::Job& job : *page) {
        EXPECT_EQ(job.labels.at("common"), "x");
        all.push_back(job.id.substr(job.id.size() - 2));
      }
      filter.before_id = page->back().id;
    }
    EXPECT_EQ(all, expected);
  }
  // The last job of a page may be gone when the next page is asked for.
  filter.labels = {{"common", "x"}};
  filter.before_id = QueuedJob(50).id;
  Execute("DELETE FROM jobs WHERE id = '" + filter.before_id + "'");
  EXPECT_THAT(Ids(filter), ElementsAre("49", "48", "47", "46"));
  filter.states = {State::kFailed};
  filter.labels["run"] = "6";
  EXPECT_THAT(Ids(filter), ElementsAre());
  filter.labels["run"] = "2";  // the 23rd is FAILED, of 3, 23 and 43
  EXPECT_THAT(Ids(filter), ElementsAre("33"));
}

// Rows as older versions stored them, before names and messages had bounds.
TEST_F(JobListTest, SummariesOfLongRowsAreShort) {
  constexpr int kJobs = 75;
  for (int i = 0; i < kJobs; ++i) {
    jobs::Job job = QueuedJob(i);
    job.name.assign(1 << 20, 'n');
    job.owner.assign(1000, 'o');
    job.message.assign(100'000, 'm');
    job.spec_json.assign(100'000, ' ');
    job.confusion_matrix.assign(100'000, ' ');
    job.output_path.assign(10'000, 'p');
    job.warnings = {std::string(100'000, 'w')};
    job.metrics = {{std::string(100'000, 'k'), 1}};
    Insert(job);
  }
  jobs::ListFilter filter;
  filter.limit = kJobs + 1;
  filter.summaries = true;
  auto listed = store_->List(filter);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), static_cast<size_t>(kJobs));
  for (const jobs::Job& job : *listed) {
    EXPECT_EQ(job.name, std::string(limits::kNameBytes - 3, 'n') + "…");
    EXPECT_EQ(job.owner, std::string(limits::kOwnerBytes - 3, 'o') + "…");
    EXPECT_EQ(job.message, std::string(limits::kMessageBytes - 3, 'm') + "…");
    EXPECT_EQ(job.output_path.size(), limits::kPathBytes);
    EXPECT_EQ(job.spec_json, "");
    EXPECT_EQ(job.confusion_matrix, "");
    EXPECT_TRUE(job.warnings.empty());
    EXPECT_TRUE(job.metrics.empty());
  }
}

TEST_F(JobListTest, SummariesOfOrdinaryRowsAreWhole) {
  jobs::Job job = QueuedJob(1);
  job.name.assign(limits::kNameBytes, 'n');
  job.owner = "änne";
  job.message.assign(limits::kMessageBytes, 'm');
  job.output_path = "/out";
  job.metrics = {{"f1", 0.5}};
  job.best_evaluation = jobs::Evaluated{3, 0.25, 0, 0, {{"f1", 0.5}}};
  job.progress = jobs::Progress();
  job.progress->step = 7;
  job.exit_reason = jobs::ExitReason::kCrashed;
  job.labels = {{"team", "nlp"}};
  Insert(job);
  jobs::ListFilter filter;
  filter.summaries = true;
  auto listed = store_->List(filter);
  ASSERT_TRUE(listed.ok()) << listed.status();
  const jobs::Job& read = listed->at(0);
  EXPECT_EQ(read.id, job.id);
  EXPECT_EQ(read.name, job.name);
  EXPECT_EQ(read.owner, job.owner);
  EXPECT_EQ(read.message, job.message);
  EXPECT_EQ(read.output_path, job.output_path);
  EXPECT_EQ(read.metrics, job.metrics);
  EXPECT_EQ(read.best_evaluation->step, 3);
  EXPECT_EQ(read.progress->step, 7);
  EXPECT_EQ(read.exit_reason, job.exit_reason);
  EXPECT_EQ(read.labels, job.labels);
  EXPECT_EQ(read.create_time, job.create_time);
}

TEST_F(JobListTest, OneUnreadableRowDoesNotHideTheOthers) {
  for (int i = 10; i < 13; ++i) {
    jobs::Job job = QueuedJob(i);
    job.message = "why";
    Insert(job);
  }
  Execute(
      "UPDATE jobs SET exit_reason = 'Bored\x1b', progress = 'x', "
      "metrics = '[[[[' WHERE id = '" +
      QueuedJob(11).id + "'");
  jobs::ListFilter filter;
  EXPECT_EQ(store_->List(filter).status().code(), absl::StatusCode::kDataLoss);
  filter.summaries = true;
  EXPECT_THAT(Ids(filter), ElementsAre("12", "11", "10"));
  const jobs::Job read = store_->List(filter)->at(1);
  EXPECT_THAT(read.message, HasSubstr("not all of this job can be read: "));
  EXPECT_THAT(read.message, HasSubstr("exit reason Bored\\x1b"));
  EXPECT_THAT(read.message, HasSubstr("; its message: why"));
  EXPECT_EQ(read.name, "job 11");
  EXPECT_FALSE(read.progress.has_value());
}

TEST_F(JobListTest, FiltersOfAnyShapeKeepFewStatements) {
  Insert(QueuedJob(1));
  constexpr size_t kStates = std::size(jobs::kAllStates);
  int shapes = 0;
  for (int more = 0; more < 8; ++more) {
    jobs::ListFilter filter;
    filter.summaries = (more & 1) != 0;
    if ((more & 2) != 0) filter.owner = "ana";
    if ((more & 4) != 0) filter.before_id = QueuedJob(2).id;
    for (int labels = 0; labels <= limits::kFilterLabels; ++labels) {
      if (labels > 0) filter.labels[std::to_string(labels)] = "v";
      filter.states.clear();
      for (size_t states = 0; states <= kStates; ++states, ++shapes) {
        if (states > 0) filter.states.push_back(jobs::kAllStates[states - 1]);
        EXPECT_TRUE(store_->List(filter).ok());
      }
    }
  }
  EXPECT_GT(shapes, 800);
  Connection& c = database_->reader();
  absl::MutexLock lock(&c.mutex());
  EXPECT_LE(c.kept_statements(), Connection::kKeptStatements);
}

}  // namespace
}  // namespace mpsd::store
