// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/rpc/hosts.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

// A Submit that is on its way.
struct Submission {
  Submission(const Api& api, const std::string& spec_json) {
    api.Prepare(context);
    request.set_spec_json(spec_json);
    api.jobs()->async()->Submit(&context, &request, &response,
                                [this](const grpc::Status& status) {
                                  answer = ToStatus(status);
                                  answered.Notify();
                                });
  }
  absl::Status Await() {
    answered.WaitForNotification();
    return answer;
  }
  grpc::ClientContext context;
  v1::SubmitRequest request;
  v1::SubmitResponse response;
  absl::Status answer;
  absl::Notification answered;
};

class UnaryCallTest : public testing::Test {
 protected:
  explicit UnaryCallTest(int submit_threads = 3, int waiting_submits = 64)
      : daemon_({.rpc = [=, this](Options& options) {
          options.audit = &audit_;
          options.submit_threads = submit_threads;
          options.max_waiting_submits = waiting_submits;
        }}) {}
  ~UnaryCallTest() override {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
    for (auto& submission : submissions_) submission->Await().IgnoreError();
  }

  // From now on a Submit waits for go_on_ before it is carried out.
  void BlockSubmits() {
    audit_.OnEachBegin([this](const access::Request& request) {
      if (request.method == "JobService.Submit") go_on_.WaitForNotification();
      return absl::OkStatus();
    });
  }
  Submission& Begin() {
    submissions_.push_back(
        std::make_unique<Submission>(daemon_.admin(), daemon_.Spec()));
    return *submissions_.back();
  }
  absl::Status Info() {
    return daemon_.admin().Call(&DaemonApi::Info).status();
  }

  FakeAudit audit_;
  InProcessDaemon daemon_;
  absl::Notification go_on_;
  std::vector<std::unique_ptr<Submission>> submissions_;
};

class OneAtATimeTest : public UnaryCallTest {
 protected:
  OneAtATimeTest() : UnaryCallTest(1, 1) {}
};

// More of them than there are threads of any kind.
TEST_F(UnaryCallTest, OthersAreAnsweredWhileSubmitsWait) {
  const std::string id = daemon_.Submit();
  BlockSubmits();
  for (int i = 0; i < 40; ++i) Begin();
  audit_.AwaitBegun(2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(daemon_.admin().Call(&Jobs::Get, ById<v1::GetJobRequest>(id)),
                IsOk());
    EXPECT_THAT(Info(), IsOk());
  }
  EXPECT_EQ(audit_.begun(), 2);
  go_on_.Notify();
  for (auto& submission : submissions_)
    EXPECT_THAT(submission->Await(), IsOk());
  EXPECT_EQ(audit_.begun(), 40);
}

TEST_F(OneAtATimeTest, WhatFindsNoRoomIsRefused) {
  BlockSubmits();
  Begin();
  audit_.AwaitBegun(1);
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
    const absl::Status status = submission->Await();
    answered += status.ok();
    if (!status.ok()) {
      EXPECT_THAT(status, Fails(StatusCode::kUnavailable, "try again"));
    }
  }
  EXPECT_EQ(answered, 2);
}

TEST_F(OneAtATimeTest, WhoGaveUpWaitingCostsNothing) {
  BlockSubmits();
  Begin();
  audit_.AwaitBegun(1);
  Submission& waiting = Begin();
  ASSERT_THAT(Info(), IsOk());  // it has come in
  waiting.context.TryCancel();
  EXPECT_THAT(waiting.Await(), Fails(StatusCode::kCancelled));
  ASSERT_THAT(Info(), IsOk());  // and so has its end
  absl::SleepFor(absl::Seconds(2));
  go_on_.Notify();
  EXPECT_THAT(submissions_[0]->Await(), IsOk());
  // Its place is free once the thread that answered the first has seen it.
  absl::Status next;
  do {
    next = Begin().Await();
  } while (absl::IsUnavailable(next));
  EXPECT_THAT(next, IsOk());
  EXPECT_EQ(audit_.begun(), 2);
}

TEST_F(UnaryCallTest, NoJobIsMadeForAClientThatIsGone) {
  BlockSubmits();
  Submission& gone = Begin();
  audit_.AwaitBegun(1);
  gone.context.TryCancel();
  EXPECT_THAT(gone.Await(), Fails(StatusCode::kCancelled));
  absl::SleepFor(absl::Seconds(1));  // the server hears of it
  go_on_.Notify();
  EXPECT_THAT(audit_.AwaitEnded(1)[0].result, Fails(StatusCode::kCancelled));
  EXPECT_THAT(*daemon_.job_store->List({}), IsEmpty());
}

TEST_F(UnaryCallTest, AnExceptionEndsItsCallAlone) {
  audit_.OnEachBegin([](const access::Request& request) -> absl::Status {
    if (request.method == "JobService.Submit") {
      throw std::runtime_error("a user's secret");
    }
    throw std::bad_alloc();
  });
  EXPECT_THAT(Begin().Await(),
              Fails(StatusCode::kInternal, "JobService.Submit"));
  EXPECT_THAT(Upload(daemon_.admin(), {Header(std::string(64, 'a'), 0)}),
              Fails(StatusCode::kInternal));
  v1::PullModelRequest pull;
  pull.set_id("org/model");
  EXPECT_THAT(daemon_.admin().Read(&Models::Pull, pull),
              Fails(StatusCode::kInternal));
  EXPECT_THAT(Info(), IsOk());
  for (const char* line :
       {"JobService.Submit: exception std::runtime_error",
        "ArtifactService.Upload: exception", "ModelService.Pull: exception"}) {
    EXPECT_THAT(daemon_.log(), HasSubstr(line));
  }
  EXPECT_THAT(daemon_.log(), Not(HasSubstr("secret")));
}

// Of a client that reads none of a long one.
TEST(UnreadAnswers, EndInTime) {
  InProcessDaemon daemon({.rpc = [](Options& options) {
    options.download_idle = absl::Milliseconds(300);
  }});
  jobs::Job job = InProcessDaemon::MakeJob(1, State::kSucceeded);
  job.spec_json.resize(8 << 20, ' ');  // far more than any window
  daemon.Put(job);
  using grpc::internal::RpcMethod;
  const RpcMethod get("/mpsd.v1.JobService/Get", RpcMethod::SERVER_STREAMING);
  grpc::ClientContext context;
  daemon.admin().Prepare(context);
  const std::unique_ptr<grpc::ClientReader<v1::Job>> unread(
      grpc::internal::ClientReaderFactory<v1::Job>::Create(
          daemon.admin().channel().get(), get, &context,
          ById<v1::GetJobRequest>(job.id)));
  EXPECT_THAT(
      daemon.calls.Await(1),
      ElementsAre(testing::Pair("JobService.Get", StatusCode::kCancelled)));
  context.TryCancel();
  unread->Finish();
}

TEST(Barrier, ALogThatFailsTooEndsNothingElse) {
  const Barrier silent;
  const Barrier broken([](const std::string&) { throw std::bad_alloc(); });
  const auto fail = []() -> absl::Status { throw std::bad_alloc(); };
  EXPECT_EQ(silent.Run("R", fail).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(broken.Run("R", fail).code(), absl::StatusCode::kInternal);
}

TEST(Executor, OnlySoMuchMayWait) {
  Executor executor(1);
  absl::Notification begun, go_on, last;
  executor.Post("ada", [&] {
    begun.Notify();
    go_on.WaitForNotification();
  });
  begun.WaitForNotification();
  const Executor::Room room{
      .tasks = 4, .tasks_of_user = 2, .bytes = 9, .bytes_of_user = 7};
  std::atomic<int> ran{0};
  const auto takes = [&](const std::string& user, size_t bytes) {
    return executor.TryPost(
        user, [&] { ++ran; }, bytes, room);
  };
  EXPECT_TRUE(takes("ada", 5));
  EXPECT_FALSE(takes("ada", 3)) << "bytes of hers";
  EXPECT_TRUE(takes("ada", 2));
  EXPECT_FALSE(takes("ada", 0)) << "tasks of hers";
  EXPECT_TRUE(takes("bob", 100)) << "his only one";
  EXPECT_FALSE(takes("bob", 0)) << "bytes of all";
  EXPECT_TRUE(takes("eve", 0));
  EXPECT_FALSE(takes("guest", 0)) << "tasks of all";
  executor.Post("ada", [&] { last.Notify(); });
  go_on.Notify();
  last.WaitForNotification();
  EXPECT_EQ(ran, 4);
}

// Of one who posts more than there are threads others have a thread left, and
// on it they come before the rest of hers.
TEST(Executor, UsersTakeTurns) {
  absl::Notification go_on, bobs, eves;
  std::atomic<int> adas{0};
  {
    Executor executor(2);
    executor.Post("ada", [&] { go_on.WaitForNotification(); });
    for (int i = 0; i < 100; ++i) executor.Post("ada", [&] { ++adas; });
    executor.Post("bob", [&] { bobs.Notify(); });
    bobs.WaitForNotification();
    executor.Post("eve", [&] { eves.Notify(); });
    eves.WaitForNotification();
    EXPECT_EQ(adas, 0);
    go_on.Notify();
  }
  EXPECT_EQ(adas, 100);
}

}  // namespace
}  // namespace mpsd::rpc
