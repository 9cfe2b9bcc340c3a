// SPDX-License-Identifier: Apache-2.0
#include "client/top_feed.h"

#include <atomic>
#include <memory>
#include <utility>
#include <variant>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

class TopFeedTest : public ClientTest {
 protected:
  void Start() {
    daemon_->Sync();
    feed_ =
        std::make_unique<TopFeed>(FindAddress(socket_.string(), ""),
                                  base::Clock::Real(), [this] { ++wakes_; });
  }

  // The next update of a kind; others are dropped.
  template <typename T>
  T Next() {
    const absl::Time end = absl::Now() + kLong;
    while (absl::Now() < end) {
      while (!updates_.empty()) {
        const top::Update update = updates_.front();
        updates_.erase(updates_.begin());
        if (const T* found = std::get_if<T>(&update)) return *found;
      }
      updates_ = feed_->Take();
      if (updates_.empty()) absl::SleepFor(absl::Milliseconds(1));
    }
    ADD_FAILURE() << "no such update";
    return T();
  }

  std::atomic<int> wakes_ = 0;
  std::unique_ptr<TopFeed> feed_;
  std::vector<top::Update> updates_;
};

TEST_F(TopFeedTest, TellsOfTheDaemonAndItsJobs) {
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().info.set_running_jobs(1);
  data().info.set_running_job_id(kId);
  Start();
  const auto answer = Next<top::Answered>();
  EXPECT_EQ(answer.info.running_job_id(), kId);
  ASSERT_FALSE(answer.running.empty());
  EXPECT_EQ(answer.running[0].id(), kId);
  EXPECT_LT(absl::Now() - answer.time, kLong);
  const auto listed = Next<top::Listed>();
  EXPECT_EQ(listed.rows.size(), 2u);
  EXPECT_FALSE(listed.more);
  EXPECT_GE(wakes_, 1);
}

TEST_F(TopFeedTest, ReadsEveryPageOfTheList) {
  for (int i = 0; i < 25; ++i) {
    AddJob("01KAH" + std::to_string(1000 + i), v1::JOB_STATE_QUEUED);
  }
  data().page_size = 10;
  Start();
  EXPECT_EQ(Next<top::Listed>().rows.size(), 25u);
}

TEST_F(TopFeedTest, SaysWhyNoTunnelLeadsToTheDaemon) {
  feed_ = std::make_unique<TopFeed>(FindAddress("ssh://-oX", ""),
                                    base::Clock::Real(), [] {});
  const absl::Time end = absl::Now() + kLong;
  std::string why;
  while (why.find("that host is no name") == std::string::npos) {
    ASSERT_LT(absl::Now(), end) << why;
    why = Next<top::Lost>().why;
  }
  EXPECT_EQ(why.find('\n'), std::string::npos);
}

TEST_F(TopFeedTest, SaysWhyTheDaemonIsAwayAndFindsItAgain) {
  Start();
  Next<top::Answered>();
  daemon_->Kill();
  EXPECT_NE(Next<top::Lost>().why, "");
  daemon_->Start();
  Next<top::Answered>();
  Next<top::Listed>();
}

TEST_F(TopFeedTest, LastsThroughEveryError) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INTERNAL, grpc::StatusCode::UNIMPLEMENTED}) {
    daemon_->Stop();
    data().fail["List"] = grpc::Status(code, "broken");
    daemon_->Start();
    Start();
    EXPECT_EQ(Next<top::Lost>().why, "broken");
    feed_.reset();
    updates_.clear();
  }
}

TEST_F(TopFeedTest, StreamsTheShownJob) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  job.set_spec_json(std::string(1000, 'x'));
  AddProgress(kId, 1, 2);
  AddProgress(kId, 2, 2);
  data().break_watch_at = 2;
  data().on_idle = [] {};
  Start();
  feed_->ShowJob(kId);
  const auto shown = Next<top::ShownJob>();
  EXPECT_EQ(shown.job.id(), kId);
  EXPECT_EQ(shown.job.spec_json(), "");
  EXPECT_EQ(Next<top::ShownEvent>().event.sequence(), 1);
  const auto second = Next<top::ShownEvent>();  // of another connection
  EXPECT_EQ(second.id, kId);
  EXPECT_EQ(second.event.sequence(), 2);
  feed_->ShowJob(kOtherId);
  EXPECT_EQ(Next<top::NotShown>().id, kOtherId);
}

TEST_F(TopFeedTest, StreamsALog) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().logs[kId] = "a line that takes several pieces\n";
  data().on_idle = [] {};
  Start();
  feed_->ShowLog(kId);
  std::string log;
  while (log.size() < data().logs[kId].size()) {
    log += Next<top::LogData>().data;
  }
  EXPECT_EQ(log, "a line that takes several pieces\n");
  feed_->ShowLog(kOtherId);
  const auto ended = Next<top::LogEnded>();
  EXPECT_EQ(ended.id, kOtherId);
  EXPECT_EQ(ended.why, std::string("there is no job ") + kOtherId);
}

TEST_F(TopFeedTest, CancelsAndSaysWhatTheDaemonAnswered) {
  AddJob("01KAH0000000000000000000CC", v1::JOB_STATE_SUCCEEDED);
  AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  AddJob(kId, v1::JOB_STATE_RUNNING);
  Start();
  const std::pair<const char*, const char*> expected[] = {
      {kId, "Job 01KAH0000000000000000000AA is being cancelled."},
      {kOtherId, "Job 01KAH0000000000000000000BB is CANCELLED."},
      {"01KAH0000000000000000000CC",
       "Job 01KAH0000000000000000000CC had ended before: SUCCEEDED."},
      {"01KAH0000000000000000000DD",
       "Job 01KAH0000000000000000000DD was not cancelled: there is no job "
       "01KAH0000000000000000000DD"}};
  for (const auto& [id, text] : expected) {
    feed_->Cancel(id);
    EXPECT_EQ(Next<top::Cancelled>().text, text);
  }
  daemon_->Kill();
  feed_->Cancel(kId);
  EXPECT_FALSE(Next<top::Cancelled>().good);
}

TEST_F(TopFeedTest, HoldsAFewUpdatesOfALongStream) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  const int many = static_cast<int>(TopFeed::kMostUpdates) + 2000;
  for (int step = 1; step <= many; ++step) AddProgress(kId, step, many);
  Start();
  feed_->ShowJob(kId);
  int steps = 0;
  const absl::Time end = absl::Now() + kLong;
  absl::SleepFor(absl::Milliseconds(500));
  while (steps < many && absl::Now() < end) {
    const std::vector<top::Update> updates = feed_->Take();
    EXPECT_LE(updates.size(), TopFeed::kMostUpdates);
    for (const top::Update& update : updates) {
      steps += std::holds_alternative<top::ShownEvent>(update);
    }
  }
  EXPECT_EQ(steps, many);
}

TEST_F(TopFeedTest, EndsAtOnceWhateverIsUnderWay) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().on_idle = [] {};
  Start();
  feed_->ShowJob(kId);
  feed_->ShowLog(kId);
  Next<top::ShownJob>();
  const absl::Time begin = absl::Now();
  feed_.reset();
  // The streams are idle, and would last for ever.
  EXPECT_LT(absl::Now() - begin, kLong);
}

}  // namespace
}  // namespace mpsd::client
