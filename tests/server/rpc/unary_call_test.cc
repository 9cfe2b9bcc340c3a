// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/hosts.h"

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A Submit that is on its way.
struct Submission {
  explicit Submission(v1::JobService::Stub& stub) {
    request.set_spec_json("{}");
    stub.async()->Submit(&context, &request, &response, [this](auto status) {
      answer = std::move(status);
      answered.Notify();
    });
  }
  grpc::Status Await() {
    answered.WaitForNotification();
    return answer;
  }
  grpc::ClientContext context;
  v1::SubmitRequest request;
  v1::SubmitResponse response;
  grpc::Status answer;
  absl::Notification answered;
};
using Submissions = std::vector<std::unique_ptr<Submission>>;

class UnaryCallTest : public Served {
 protected:
  explicit UnaryCallTest(Options options = Options()) : Served(options) {
    manager_.Put("a", jobs::State::kQueued);
  }
  ~UnaryCallTest() override {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    for (auto& submission : submissions_) submission->Await();
  }

  // From now on a Submit waits for go_on_, or until nobody wants it.
  void BlockSubmits() {
    manager_.OnSubmit([this](const jobs::SubmitRequest& request) {
      ++begun_;
      absl::Status wanted;
      while (!go_on_.HasBeenNotified() && wanted.ok()) {
        absl::SleepFor(absl::Milliseconds(1));
        wanted = request.wanted();
      }
      ++ended_;
      if (!wanted.ok()) return Ends(wanted);
      return absl::StatusOr<jobs::SubmitResult>(jobs::SubmitResult{
          FakeManager::MakeJob("a", jobs::State::kQueued), false});
    });
  }
  absl::StatusOr<jobs::SubmitResult> Ends(const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    why_ = why;
    return why;
  }
  absl::Status Why() {
    absl::MutexLock lock(&mutex_);
    return why_;
  }
  Submission& Begin() {
    submissions_.push_back(std::make_unique<Submission>(*jobs_));
    return *submissions_.back();
  }
  static void Await(const std::atomic<int>& count, int reached) {
    while (count < reached) absl::SleepFor(absl::Milliseconds(1));
  }
  std::atomic<int> begun_ = 0, ended_ = 0;
  absl::Notification go_on_;
  absl::Mutex mutex_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  v1::InfoResponse info_;
  Submissions submissions_;
};

class OneAtATimeTest : public UnaryCallTest {
 protected:
  OneAtATimeTest() : UnaryCallTest(OneSubmit()) {}
  static Options OneSubmit() {
    Options options;
    options.submit_threads = options.max_waiting_submits = 1;
    return options;
  }
};

// More of them than there are threads of any kind.
TEST_F(UnaryCallTest, OthersAreAnsweredWhileSubmitsWait) {
  BlockSubmits();
  for (int i = 0; i < 40; ++i) Begin();
  Await(begun_, 2);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Get("a").ok());
    ASSERT_TRUE(Info(info_).ok());
  }
  EXPECT_EQ(begun_, 2);
  go_on_.Notify();
  for (auto& submission : submissions_) {
    EXPECT_TRUE(submission->Await().ok()) << submission->answer.error_message();
  }
  EXPECT_EQ(begun_, 40);
}

TEST_F(OneAtATimeTest, WhatFindsNoRoomIsToldSo) {
  BlockSubmits();
  Begin();
  Await(begun_, 1);
  for (int i = 0; i < 4; ++i) Begin();
  // Three are refused while the first runs; one waits.
  int refused = 0;
  while (refused < 3) {
    refused = 0;
    for (auto& submission : submissions_) {
      refused += submission->answered.HasBeenNotified();
    }
  }
  go_on_.Notify();
  int answered = 0;
  for (auto& submission : submissions_) {
    if (submission->Await().ok()) {
      ++answered;
      continue;
    }
    EXPECT_EQ(submission->answer.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(submission->answer.error_message(), HasSubstr("try again"));
  }
  EXPECT_EQ(answered, 2);
}

TEST_F(OneAtATimeTest, WhoGaveUpWaitingCostsNothing) {
  BlockSubmits();
  Begin();
  Await(begun_, 1);
  Submission& waiting = Begin();
  ASSERT_TRUE(Info(info_).ok());  // it has come in
  waiting.context.TryCancel();
  EXPECT_EQ(waiting.Await().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(Info(info_).ok());  // and so has its end
  absl::SleepFor(absl::Seconds(2));
  go_on_.Notify();
  submissions_[0]->Await();
  // Its place is free once the thread that answered the first has seen it.
  grpc::Status next;
  do {
    next = Submit();
  } while (next.error_code() == grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(next.ok()) << next.error_message();
  EXPECT_EQ(begun_, 2);
}

TEST_F(UnaryCallTest, WorkUnderWayLearnsThatItsClientIsGone) {
  BlockSubmits();
  Submission& submission = Begin();
  Await(begun_, 1);
  submission.context.TryCancel();
  Await(ended_, 1);
  EXPECT_EQ(submission.Await().error_code(), grpc::StatusCode::CANCELLED);
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(Why().code(), absl::StatusCode::kCancelled);
}

TEST_F(UnaryCallTest, WorkUnderWayLearnsThatItIsTooLate) {
  BlockSubmits();
  // A client that is held up may be too late to send the call at all: it gets
  // more time then.
  for (int ms = 100; begun_ == 0 && ms < 60'000; ms *= 4) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(ms));
    v1::SubmitRequest request;
    request.set_spec_json("{}");
    v1::SubmitResponse response;
    EXPECT_EQ(jobs_->Submit(&context, request, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
    for (int i = 0; i < 1000 && begun_ == 0; ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  ASSERT_GT(begun_, 0);
  Await(ended_, begun_);
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(Why().code(), absl::StatusCode::kCancelled);
}

TEST_F(UnaryCallTest, ShutdownWaitsForNoSubmit) {
  BlockSubmits();
  for (int i = 0; i < 10; ++i) Begin();
  Await(begun_, 2);
  server_->Shutdown(absl::Hours(1));  // of grace: it must not be needed
  for (auto& submission : submissions_) {
    EXPECT_EQ(submission->Await().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_THAT(std::string(Why().message()), HasSubstr("stopping"));
}

TEST_F(UnaryCallTest, AnExceptionEndsItsCallAlone) {
  manager_.OnSubmit(
      [](const jobs::SubmitRequest&) -> absl::StatusOr<jobs::SubmitResult> {
        throw std::runtime_error("a user's secret");
      });
  grpc::Status status = Submit();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(status.error_message(), HasSubstr("JobService.Submit"));
  EXPECT_TRUE(Info(info_).ok());
  EXPECT_THAT(Logged(), HasSubstr("JobService.Submit: exception "
                                  "std::runtime_error"));
  EXPECT_THAT(Logged(), Not(HasSubstr("secret")));
}

TEST_F(UnaryCallTest, AnExceptionEndsItsStreamAlone) {
  manager_.ThrowFromEvents(std::make_exception_ptr(std::bad_alloc()));
  grpc::ClientContext context;
  auto watcher = Watch(context);
  v1::JobEvent event;
  EXPECT_FALSE(watcher->Read(&event));
  EXPECT_EQ(watcher->Finish().error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(Logged(), HasSubstr("JobService.Watch: exception"));

  blobs_.ThrowFromBegin(std::make_exception_ptr(std::bad_alloc()));
  grpc::ClientContext upload;
  v1::UploadResponse response;
  auto writer = artifacts_->Upload(&upload, &response);
  ASSERT_TRUE(writer->Write(Header(std::string(64, 'a'), 0)));
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(Logged(), HasSubstr("ArtifactService.Upload: exception"));
}

class BarrierTest : public testing::Test {
 protected:
  template <typename Exception>
  absl::Status Throw(const Exception& exception) {
    return barrier_.Run("JobService.Get",
                        [&]() -> absl::Status { throw exception; });
  }
  std::vector<std::string> log_;
  Barrier barrier_{[this](const std::string& line) { log_.push_back(line); }};
};

TEST_F(BarrierTest, PassesAStatusOn) {
  EXPECT_TRUE(barrier_.Run("R", [] { return absl::OkStatus(); }).ok());
  const absl::Status error = absl::NotFoundError("none");
  EXPECT_EQ(barrier_.Run("R", [&] { return error; }), error);
  EXPECT_THAT(log_, testing::IsEmpty());
}

TEST_F(BarrierTest, AnExceptionIsInternalAndLoggedByItsTypeAlone) {
  const absl::Status status = Throw(std::out_of_range("a password"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("JobService.Get"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("password")));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_EQ(log_[0], "JobService.Get: exception std::out_of_range");
  // Memory that ran out, and what is no exception.
  EXPECT_EQ(Throw(std::bad_alloc()).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Throw(42).code(), absl::StatusCode::kInternal);
  ASSERT_EQ(log_.size(), 3u);
  EXPECT_THAT(log_[1], HasSubstr("std::bad_alloc"));
}

TEST_F(BarrierTest, ALogThatFailsTooEndsNothingElse) {
  const Barrier silent;
  const Barrier broken([](const std::string&) { throw std::bad_alloc(); });
  const auto fail = []() -> absl::Status { throw std::bad_alloc(); };
  EXPECT_EQ(silent.Run("R", fail).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(broken.Run("R", fail).code(), absl::StatusCode::kInternal);
}

TEST(Executor, OneThreadRunsTasksInOrder) {
  std::vector<int> order;
  {
    Executor executor(1);
    for (int i = 0; i < 100; ++i) {
      executor.Post([&order, i] { order.push_back(i); });
    }
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(Executor, ThreadsRunAtTheSameTime) {
  auto* barrier = new absl::Barrier(3);
  Executor executor(2);
  const auto meet = [barrier] {
    if (barrier->Block()) delete barrier;
  };
  executor.Post(meet);
  executor.Post(meet);
  meet();  // returns only once both tasks run
}

TEST(Executor, ItsEndRunsWhatWasPostedAlsoByTasks) {
  std::atomic<int> ran{0};
  {
    Executor executor(2);
    for (int i = 0; i < 10; ++i) {
      executor.Post([&] {
        ++ran;
        executor.Post([&] { ++ran; });
      });
    }
  }
  EXPECT_EQ(ran, 20);
}

TEST(Executor, TakesNoMoreThanMayWait) {
  Executor executor(1);
  absl::Notification begun, go_on;
  executor.Post([&] {
    begun.Notify();
    go_on.WaitForNotification();
  });
  begun.WaitForNotification();
  std::atomic<int> ran{0};
  EXPECT_TRUE(executor.TryPost([&] { ++ran; }, 2));
  EXPECT_TRUE(executor.TryPost([&] { ++ran; }, 2));
  EXPECT_FALSE(executor.TryPost([&] { ++ran; }, 2));
  absl::Notification last;
  executor.Post([&] { last.Notify(); });
  go_on.Notify();
  last.WaitForNotification();
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace mpsd::rpc
