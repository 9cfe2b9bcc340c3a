// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/server.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class CallReportTest : public Served {
 protected:
  CallReportTest() { manager_.Put("a", jobs::State::kRunning); }
  void Call(const std::string& method, const std::string& request) {
    grpc::ClientContext context;
    CallBytes(channel_, context, method, request);
  }
};

TEST_F(CallReportTest, EveryMethodOfEveryServiceIsServed) {
  const auto served = calls_.served();
  for (const google::protobuf::FileDescriptor* file :
       {v1::Job::descriptor()->file(), v1::UploadRequest::descriptor()->file(),
        v1::InfoRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const auto& service = *file->service(i);
      for (int m = 0; m < service.method_count(); ++m) {
        EXPECT_THAT(served,
                    Contains(Pair(absl::StrCat(service.name(), ".",
                                               service.method(m)->name()),
                                  testing::_)));
      }
    }
  }
  EXPECT_THAT(served, Contains(Pair("JobService.Submit", false)));
  EXPECT_THAT(served, Contains(Pair("JobService.Watch", true)));
  EXPECT_THAT(served, Contains(Pair("ArtifactService.Upload", true)));
  EXPECT_THAT(served, Contains(Pair("Health.Check", false)));
  EXPECT_THAT(served,
              Contains(Pair("ServerReflection.ServerReflectionInfo", true)));
}

TEST_F(CallReportTest, AUnaryCallIsReportedWithItsCode) {
  EXPECT_TRUE(Get("a").ok());
  EXPECT_FALSE(Get("b").ok());
  EXPECT_FALSE(Get("").ok());
  EXPECT_THAT(calls_.Await(3),
              // A client has its answer before the report of its call.
              UnorderedElementsAre(
                  Pair("JobService.Get", absl::StatusCode::kOk),
                  Pair("JobService.Get", absl::StatusCode::kNotFound),
                  Pair("JobService.Get", absl::StatusCode::kInvalidArgument)));
  for (absl::Duration duration : calls_.durations()) {
    EXPECT_GT(duration, absl::ZeroDuration());
  }
  EXPECT_EQ(calls_.open("JobService.Get"), 0);
}

TEST_F(CallReportTest, AWatchThatItsClientCancels) {
  grpc::ClientContext context;
  auto watcher = Watch(context);
  ASSERT_TRUE(manager_.AwaitSubscribers(1));
  EXPECT_EQ(calls_.open("JobService.Watch"), 1);
  context.TryCancel();
  watcher->Finish();
  EXPECT_THAT(calls_.Await(1), ElementsAre(Pair("JobService.Watch",
                                                absl::StatusCode::kCancelled)));
  EXPECT_EQ(calls_.open("JobService.Watch"), 0);
}

TEST_F(CallReportTest, AWatchWhoseDeadlinePasses) {
  const std::pair<std::string, absl::StatusCode> expected = {
      "JobService.Watch", absl::StatusCode::kDeadlineExceeded};
  std::vector<std::pair<std::string, absl::StatusCode>> ended;
  // On a busy machine a client may be too late to send the call at all, or its
  // reset may arrive before the server's own clock says so: it gets more time.
  for (int ms = 100; ms < 60'000 && std::ranges::count(ended, expected) == 0;
       ms *= 4) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(ms));
    EXPECT_EQ(Watch(context)->Finish().error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
    ended = calls_.Await(ended.size() + 1, absl::Seconds(2));
  }
  EXPECT_THAT(ended, Contains(expected));
}

TEST_F(CallReportTest, AnUploadWithoutAHeaderAndOneThatBreaksOff) {
  v1::UploadResponse response;
  {
    grpc::ClientContext context;
    auto writer = artifacts_->Upload(&context, &response);
    writer->Write(Data("x"));
    EXPECT_EQ(writer->Finish().error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_THAT(calls_.Await(1),
              ElementsAre(Pair("ArtifactService.Upload",
                               absl::StatusCode::kInvalidArgument)));
  grpc::ClientContext context;
  auto writer = artifacts_->Upload(&context, &response);
  ASSERT_TRUE(writer->Write(Header(std::string(64, 'a'), 5)));
  ASSERT_TRUE(blobs_.AwaitWriter());
  context.TryCancel();
  writer->Finish();
  EXPECT_THAT(calls_.Await(2), Contains(Pair("ArtifactService.Upload",
                                             absl::StatusCode::kCancelled)));
}

// However many methods a client invents, they have one name.
TEST_F(CallReportTest, MethodsThatDoNotExistHaveOneName) {
  for (int i = 0; i < 3; ++i) {
    Call("/mpsd.v1.JobService/Invented" + std::to_string(i), "");
    Call("/invented" + std::to_string(i) + "/Submit", "");
  }
  EXPECT_THAT(
      calls_.Await(6),
      testing::AllOf(testing::SizeIs(6),
                     testing::Each(Pair(kUnknownMethod,
                                        absl::StatusCode::kUnimplemented))));
}

TEST_F(CallReportTest, CallsThatNoHandlerOfOursSees) {
  Call("/grpc.health.v1.Health/Check", "");
  Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
       "\x3a\x01*");
  // A field number of 0, which no message has.
  Call("/mpsd.v1.JobService/Get", std::string("\x02\x00", 2));
  const auto ended = calls_.Await(3);
  EXPECT_THAT(ended, Contains(Pair("Health.Check", absl::StatusCode::kOk)));
  EXPECT_THAT(ended, Contains(Pair("ServerReflection.ServerReflectionInfo",
                                   testing::_)));
  // gRPC 1.51 says UNIMPLEMENTED.
  EXPECT_THAT(ended, Contains(Pair("JobService.Get",
                                   testing::Ne(absl::StatusCode::kOk))));
}

TEST_F(CallReportTest, ManyAtOnceAreAllReported) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] {
      for (int n = 0; n < 50; ++n) Get("a");
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(calls_.Await(400),
              testing::AllOf(testing::SizeIs(400),
                             testing::Each(Pair("JobService.Get",
                                                absl::StatusCode::kOk))));
  EXPECT_EQ(calls_.open("JobService.Get"), 0);
}

TEST_F(CallReportTest, AfterShutdownEveryCallHasEnded) {
  grpc::ClientContext context;
  auto watcher = Watch(context);
  ASSERT_TRUE(manager_.AwaitSubscribers(1));
  server_->Shutdown(absl::ZeroDuration());
  watcher->Finish();
  EXPECT_EQ(calls_.open("JobService.Watch"), 0);
  EXPECT_THAT(calls_.Await(1),
              ElementsAre(Pair("JobService.Watch", testing::_)));
}

}  // namespace
}  // namespace mpsd::rpc
