// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_service.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;

// The calls over a real channel; what they do is tested beside each function.
class JobServiceTest : public Served {
 protected:
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> Watch(
      grpc::ClientContext& context, const std::string& id, int64_t after) {
    v1::WatchRequest request;
    request.set_id(id);
    request.set_after_sequence(after);
    return jobs_->Watch(&context, request);
  }
  void End(const std::string& id) {
    manager_.Append(id, jobs::StateChanged{jobs::State::kSucceeded, ""});
  }
};

TEST_F(JobServiceTest, SubmitGetCancelCheckpoints) {
  manager_.OnSubmit([](const jobs::SubmitRequest& request) {
    jobs::Job job = FakeManager::MakeJob("a", jobs::State::kQueued);
    job.owner = request.owner;
    return jobs::SubmitResult{job, false};
  });
  v1::SubmitRequest submit;
  submit.set_spec_json("{}");
  v1::SubmitResponse submitted;
  grpc::ClientContext c1, c2, c3, c4;
  ASSERT_TRUE(jobs_->Submit(&c1, submit, &submitted).ok());
  EXPECT_NE(submitted.job().owner(), "");  // the account of the test
  manager_.Put("a", jobs::State::kQueued);
  manager_.AddCheckpoint("a", {{5, "/c/5", 1, 1}, absl::UnixEpoch()});
  v1::GetJobRequest get;
  get.set_id("a");
  v1::Job job;
  ASSERT_TRUE(jobs_->Get(&c2, get, &job).ok());
  EXPECT_EQ(job.queue_position(), 4);
  v1::CancelRequest cancel;
  cancel.set_id("a");
  ASSERT_TRUE(jobs_->Cancel(&c3, cancel, &job).ok());
  EXPECT_TRUE(job.cancel_requested());
  v1::CheckpointsRequest list;
  list.set_id("a");
  v1::CheckpointsResponse checkpoints;
  ASSERT_TRUE(jobs_->Checkpoints(&c4, list, &checkpoints).ok());
  EXPECT_EQ(checkpoints.checkpoints(0).step(), 5);
}

TEST_F(JobServiceTest, FindAndDelete) {
  manager_.Put("01KAH0AAAA", jobs::State::kSucceeded);
  manager_.Put("01KAH0BBBB", jobs::State::kRunning);
  v1::FindJobsRequest find;
  find.set_id_part("aaaa");
  v1::FindJobsResponse found;
  grpc::ClientContext c1, c2, c3;
  ASSERT_TRUE(jobs_->FindJobs(&c1, find, &found).ok());
  ASSERT_EQ(found.jobs_size(), 1);
  v1::DeleteRequest remove;
  remove.set_id(found.jobs(0).id());
  v1::DeleteResponse removed;
  ASSERT_TRUE(jobs_->Delete(&c2, remove, &removed).ok());
  EXPECT_EQ(removed.freed_bytes(), 42);
  remove.set_id("01KAH0BBBB");
  EXPECT_EQ(jobs_->Delete(&c3, remove, &removed).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

// Its events are gone under a watcher that has not read them all.
TEST_F(JobServiceTest, AWatchOfADeletedJobEnds) {
  manager_.Put("a", jobs::State::kRunning);
  for (int i = 1; i <= 3000; ++i) manager_.AppendProgress("a", i);
  grpc::ClientContext context;
  auto reader = Watch(context, "a", 0);
  v1::JobEvent event;
  ASSERT_TRUE(reader->Read(&event));
  manager_.Erase("a");
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobServiceTest, ListPages) {
  for (const char* id : {"a", "b", "c"}) {
    manager_.Put(id, jobs::State::kRunning);
  }
  v1::ListJobsRequest request;
  request.set_page_size(2);
  v1::ListJobsResponse response;
  grpc::ClientContext c1, c2, c3;
  ASSERT_TRUE(jobs_->List(&c1, request, &response).ok());
  EXPECT_EQ(response.jobs().size(), 2);
  request.set_page_token(response.next_page_token());
  ASSERT_TRUE(jobs_->List(&c2, request, &response).ok());
  EXPECT_EQ(response.jobs(0).id(), "a");
  request.set_page_token("forged");
  EXPECT_EQ(jobs_->List(&c3, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(JobServiceTest, TheQueuesErrorsArrive) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError("line 3: training.max_steps"),
        absl::FailedPreconditionError("not uploaded"),
        absl::AlreadyExistsError("another spec")}) {
    manager_.OnSubmit([&](const jobs::SubmitRequest&) { return error; });
    v1::SubmitRequest request;
    request.set_spec_json("{}");
    v1::SubmitResponse response;
    grpc::ClientContext context;
    const grpc::Status status = jobs_->Submit(&context, request, &response);
    EXPECT_EQ(static_cast<int>(status.error_code()),
              static_cast<int>(error.code()));
    EXPECT_EQ(status.error_message(), std::string(error.message()));
  }
  v1::GetJobRequest get;
  get.set_id("x");
  v1::Job job;
  grpc::ClientContext context;
  EXPECT_EQ(jobs_->Get(&context, get, &job).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobServiceTest, AVeryLongErrorArrivesCut) {
  std::string text = "row 7: ";
  for (int i = 0; i < 10'000; ++i) text += "\u00e9\n%";
  for (const std::string& message : {text, std::string(20'000, 'x')}) {
    manager_.OnSubmit([&](const jobs::SubmitRequest&) {
      return absl::InvalidArgumentError(message);
    });
    v1::SubmitRequest request;
    request.set_spec_json("{}");
    v1::SubmitResponse response;
    grpc::ClientContext context;
    const grpc::Status status = jobs_->Submit(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message().substr(0, 5), message.substr(0, 5));
  }
}

TEST_F(JobServiceTest, WatchOfAnUnknownJobIsNotFound) {
  grpc::ClientContext context;
  v1::JobEvent event;
  auto reader = Watch(context, "x", 0);
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

// A watcher that breaks off and comes again while events come sees each once.
TEST_F(JobServiceTest, WatchResumesWhileEventsCome) {
  constexpr int64_t kEvents = 500;
  manager_.Put("a", jobs::State::kRunning);
  std::thread producer([this] {
    for (int64_t i = 1; i < kEvents; ++i) manager_.AppendProgress("a", i);
    End("a");
  });
  std::vector<int64_t> seen;
  while (seen.empty() || seen.back() != kEvents) {
    grpc::ClientContext context;
    auto reader = Watch(context, "a", seen.empty() ? 0 : seen.back());
    v1::JobEvent event;
    for (int i = 0; i < 50 && reader->Read(&event); ++i) {
      seen.push_back(event.sequence());
    }
    context.TryCancel();
    reader->Finish();
  }
  producer.join();
  ASSERT_EQ(seen.size(), static_cast<size_t>(kEvents));
  for (int64_t i = 0; i < kEvents; ++i) EXPECT_EQ(seen[i], i + 1);
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
}

TEST_F(JobServiceTest, AWatchersEndIsOk) {
  manager_.Put("a", jobs::State::kRunning);
  grpc::ClientContext context;
  auto reader = Watch(context, "a", 0);
  ASSERT_TRUE(manager_.AwaitSubscribers(1));
  manager_.Append("a", jobs::Evaluated{0, 2.5, 0, 0, {}});
  v1::JobEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.evaluated().eval_loss(), 2.5);
  End("a");
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.state().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(JobServiceTest, AClientThatVanishesLeavesNothingBehind) {
  manager_.Put("a", jobs::State::kRunning);
  manager_.AppendProgress("a", 1);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    auto reader = Watch(context, "a", 0);
    v1::JobEvent event;
    if (i % 2 == 0) {
      ASSERT_TRUE(reader->Read(&event));
    }
    context.TryCancel();
    reader->Finish();
  }
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
  manager_.AppendProgress("a", 2);  // nobody is there to hear it
}

TEST_F(JobServiceTest, ASlowWatcherHoldsUpNobody) {
  constexpr int kEvents = 400;  // with 64 KiB each far more than any window
  manager_.Put("a", jobs::State::kRunning);
  for (int i = 1; i < kEvents; ++i) {
    manager_.Append("a", jobs::Note{std::string(64 << 10, 'n')});
  }
  grpc::ClientContext slow_context;
  auto slow = Watch(slow_context, "a", 0);
  v1::JobEvent event;
  ASSERT_TRUE(slow->Read(&event));
  End("a");
  grpc::ClientContext context;
  auto fast = Watch(context, "a", 0);
  int count = 0;
  while (fast->Read(&event)) ++count;
  EXPECT_EQ(count, kEvents);
  count = 1;
  while (slow->Read(&event)) EXPECT_EQ(event.sequence(), ++count);
  EXPECT_EQ(count, kEvents);
  EXPECT_TRUE(slow->Finish().ok());
}

// One of many watchers on the callback API: no thread of its own either.
class Watcher : public grpc::ClientReadReactor<v1::JobEvent> {
 public:
  Watcher(v1::JobService::Stub& stub, const std::string& id,
          absl::BlockingCounter& done)
      : done_(done) {
    request_.set_id(id);
    stub.async()->Watch(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    in_order_ = in_order_ && event_.sequence() == ++count_;
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.DecrementCount();
  }
  bool SawAll(int64_t count) const {
    return status_.ok() && in_order_ && count_ == count;
  }

 private:
  absl::BlockingCounter& done_;
  grpc::ClientContext context_;
  v1::WatchRequest request_;
  v1::JobEvent event_;
  grpc::Status status_;
  int64_t count_ = 0;
  bool in_order_ = true;
};

TEST_F(JobServiceTest, TwoHundredWatchersSeeEverything) {
  constexpr int kWatchers = 200, kEvents = 100;
  manager_.Put("a", jobs::State::kRunning);
  absl::BlockingCounter done(kWatchers);
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < kWatchers; ++i) {
    watchers.push_back(std::make_unique<Watcher>(*jobs_, "a", done));
  }
  ASSERT_TRUE(manager_.AwaitSubscribers(kWatchers));
  for (int i = 1; i < kEvents; ++i) manager_.AppendProgress("a", i);
  End("a");
  done.Wait();
  for (const auto& watcher : watchers) EXPECT_TRUE(watcher->SawAll(kEvents));
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
}

TEST_F(JobServiceTest, LogsFollowUntilTheJobEnds) {
  manager_.Put("a", jobs::State::kRunning);
  std::filesystem::create_directories(manager_.JobFolder("a"));
  std::ofstream log(manager_.LogPath("a"), std::ios::app);
  log << "one\n" << std::flush;
  v1::LogsRequest request;
  request.set_id("a");
  request.set_follow(true);
  grpc::ClientContext context;
  auto reader = jobs_->Logs(&context, request);
  v1::LogChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "one\n");
  log << "two\n" << std::flush;  // the worker writes; nobody wakes the stream
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "two\n");
  EXPECT_EQ(chunk.offset_bytes(), 4);
  log << "three\n" << std::flush;
  manager_.Put("a", jobs::State::kFailed);
  manager_.WakeAll("a");
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "three\n");
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(JobServiceTest, AFollowerThatVanishesLeavesNothingBehind) {
  manager_.Put("a", jobs::State::kRunning);
  v1::LogsRequest request;
  request.set_id("a");
  request.set_follow(true);
  grpc::ClientContext context;
  auto reader = jobs_->Logs(&context, request);
  ASSERT_TRUE(manager_.AwaitSubscribers(1));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
}

TEST_F(JobServiceTest, LogsOfAnUnknownJobAreNotFound) {
  v1::LogsRequest request;
  request.set_id("../a");
  grpc::ClientContext context;
  v1::LogChunk chunk;
  auto reader = jobs_->Logs(&context, request);
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace mpsd::rpc
