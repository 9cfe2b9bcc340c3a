// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_calls.h"
#include "tests/server/rpc/fake_tokens.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;

class ServerTest : public Served {
 protected:
  // A call whose generated code is not installed with gRPC: bytes to bytes.
  grpc::Status Call(const std::string& method, const std::string& request,
                    std::string& response) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    const grpc::Slice slice(request);
    const grpc::ByteBuffer in(&slice, 1);
    grpc::ByteBuffer out;
    grpc::Status status;
    absl::Notification done;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &in, &out,
                   [&](grpc::Status answered) {
                     status = std::move(answered);
                     done.Notify();
                   });
    done.WaitForNotification();
    std::vector<grpc::Slice> slices;
    if (status.ok()) out.Dump(&slices);
    response.clear();
    for (const grpc::Slice& part : slices) {
      response.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
    return status;
  }
  // grpc.health.v1.HealthCheckRequest{service = name}
  grpc::Status Health(const std::string& name, std::string& response) {
    std::string request;
    if (!name.empty()) {
      request = "\x0a" + std::string(1, static_cast<char>(name.size())) + name;
    }
    return Call("/grpc.health.v1.Health/Check", request, response);
  }
};

TEST_F(ServerTest, TheSocketIsForItsOwnerAlone) {
  struct stat info;
  ASSERT_EQ(stat(socket_path().c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(server_->addresses(), testing::ElementsAre(address()));
}

TEST_F(ServerTest, StartingLeavesTheUmaskAsItWas) {
  const mode_t mask = umask(022);
  umask(mask);
  RpcServer other({{"unix:" + socket_path() + "2"}}, manager_, manager_, blobs_,
                  {});
  ASSERT_TRUE(other.Start().ok());
  EXPECT_EQ(umask(mask), mask);
}

TEST_F(ServerTest, HealthSaysServing) {
  const std::string kServing("\x08\x01");  // HealthCheckResponse{status = 1}
  std::string response;
  for (const char* service :
       {"", "mpsd.v1.JobService", "mpsd.v1.ArtifactService",
        "mpsd.v1.DaemonService", "mpsd.v1.AccessService"}) {
    ASSERT_TRUE(Health(service, response).ok()) << service;
    EXPECT_EQ(response, kServing);
  }
  EXPECT_EQ(Health("mpsd.v1.Nothing", response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, ReflectionListsTheServices) {
  std::string response;
  // ServerReflectionRequest{list_services = "*"}
  const grpc::Status status =
      Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
           "\x3a\x01*", response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  for (const char* service : {"mpsd.v1.JobService", "mpsd.v1.ArtifactService",
                              "mpsd.v1.DaemonService", "mpsd.v1.AccessService",
                              "grpc.health.v1.Health"}) {
    EXPECT_THAT(response, HasSubstr(service));
  }
}

// Fifty people who look at all jobs keep nobody from looking at one.
TEST_F(ServerTest, NoCallWaitsForLists) {
  manager_.Put("10", jobs::State::kQueued);
  absl::Notification let_go;
  manager_.OnList([&let_go] { let_go.WaitForNotification(); });
  std::vector<std::thread> askers;
  for (int i = 0; i < 50; ++i) {
    askers.emplace_back([this] {
      grpc::ClientContext context;
      v1::ListJobsResponse response;
      EXPECT_TRUE(jobs_->List(&context, {}, &response).ok());
    });
  }
  for (int i = 0; i < 10; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(60));
    v1::GetJobRequest request;
    request.set_id("10");
    v1::Job job;
    EXPECT_TRUE(jobs_->Get(&context, request, &job).ok());
  }
  let_go.Notify();
  for (std::thread& asker : askers) asker.join();
}

TEST_F(ServerTest, AFreePortIsFoundAndServed) {
  FakeTokens tokens;
  tokens.Put("good", "eve");
  Options options;
  options.addresses = {"127.0.0.1:0", "unix:" + socket_path() + "2"};
  options.callers.tokens = &tokens;
  RpcServer server(options, manager_, manager_, blobs_,
                   SomeFacts(scratch_.path()));
  ASSERT_TRUE(server.Start().ok());
  ASSERT_EQ(server.addresses().size(), 2u);
  EXPECT_THAT(server.addresses()[0], testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(server.addresses()[0], "127.0.0.1:0");
  for (const std::string& address : server.addresses()) {
    auto stub = v1::DaemonService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer good");
    v1::InfoResponse response;
    EXPECT_TRUE(stub->Info(&context, {}, &response).ok()) << address;
  }
}

// Neither an interceptor nor a gate sees such a call.
TEST_F(ServerTest, ACallOfAStrangerIsCountedAndNoted) {
  FakeCalls calls;
  FakeAudit audit;
  Options options;
  options.addresses = {"127.0.0.1:0"};
  options.calls = &calls;
  options.audit = &audit;
  RpcServer server(options, manager_, manager_, blobs_,
                   SomeFacts(scratch_.path()));
  ASSERT_TRUE(server.Start().ok());
  auto stub = v1::JobService::NewStub(grpc::CreateChannel(
      server.addresses()[0], grpc::InsecureChannelCredentials()));
  grpc::ClientContext list_context, cancel_context;
  v1::ListJobsResponse jobs;
  v1::Job job;
  EXPECT_EQ(stub->List(&list_context, {}, &jobs).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stub->Cancel(&cancel_context, {}, &job).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(
      calls.Await(2),
      // A client has its answer before the report of its call.
      testing::UnorderedElementsAre(
          std::pair("JobService.List", absl::StatusCode::kUnauthenticated),
          std::pair("JobService.Cancel", absl::StatusCode::kUnauthenticated)));
  EXPECT_EQ(calls.open("JobService.List"), 0);
  // Reading is not audited.
  const std::vector<FakeAudit::Entry> entries = audit.Take();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries[0].refused);
  EXPECT_EQ(entries[0].request.method, "JobService.Cancel");
  EXPECT_EQ(entries[0].request.caller.user, "");
}

TEST_F(ServerTest, AGroupMayUseTheSocket) {
  Options options;
  options.addresses = {"unix:" + socket_path() + "2"};
  options.socket_group = getegid();
  RpcServer server(options, manager_, manager_, blobs_, {});
  ASSERT_TRUE(server.Start().ok());
  struct stat info;
  ASSERT_EQ(stat((socket_path() + "2").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
}

TEST_F(ServerTest, ATakenPortIsRefusedAndNamed) {
  Options options;
  options.addresses = {"127.0.0.1:0"};
  RpcServer first(options, manager_, manager_, blobs_, {});
  ASSERT_TRUE(first.Start().ok());
  options.addresses = first.addresses();
  RpcServer second(options, manager_, manager_, blobs_, {});
  const absl::Status status = second.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(first.addresses()[0]));
}

TEST_F(ServerTest, AnImpossibleAddressIsRefused) {
  RpcServer server({{"unix:/" + std::string(300, 'x')}}, manager_, manager_,
                   blobs_, {});
  EXPECT_EQ(server.Start().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, AStaleSocketIsReplaced) {
  server_.reset();
  // What a killed daemon leaves: a socket nobody listens on.
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socket_path().copy(name.sun_path, sizeof(name.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  close(fd);
  RpcServer server({{address()}}, manager_, manager_, blobs_, {});
  EXPECT_TRUE(server.Start().ok());
}

TEST_F(ServerTest, AMessageOverTheLimitIsRefused) {
  v1::SubmitRequest request;
  request.set_spec_json(std::string(33 << 20, ' '));
  v1::SubmitResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(jobs_->Submit(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, ShutdownEndsWatchersAndFollowersAtOnce) {
  manager_.Put("a", jobs::State::kRunning);
  v1::WatchRequest watch;
  watch.set_id("a");
  v1::LogsRequest follow;
  follow.set_id("a");
  follow.set_follow(true);
  grpc::ClientContext watch_context, follow_context;
  auto watcher = jobs_->Watch(&watch_context, watch);
  auto follower = jobs_->Logs(&follow_context, follow);
  ASSERT_TRUE(manager_.AwaitSubscribers(2));
  // An hour of grace: it must not be needed.
  std::thread shutdown([this] { server_->Shutdown(absl::Hours(1)); });
  v1::JobEvent event;
  v1::LogChunk chunk;
  EXPECT_FALSE(watcher->Read(&event));
  EXPECT_FALSE(follower->Read(&chunk));
  EXPECT_EQ(watcher->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(follower->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  shutdown.join();
  EXPECT_EQ(manager_.subscribers(), 0);
}

TEST_F(ServerTest, ShutdownCancelsWhatDoesNotEnd) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  auto writer = artifacts_->Upload(&context, &response);
  v1::UploadRequest header;
  header.mutable_header()->set_sha256(std::string(64, 'a'));
  header.mutable_header()->set_size_bytes(5);
  ASSERT_TRUE(writer->Write(header));
  ASSERT_TRUE(blobs_.AwaitWriter());
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_TRUE(blobs_.AwaitNoWriters());
  EXPECT_FALSE(writer->Finish().ok());
}

TEST_F(ServerTest, ManyMayShutItDown) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { server_->Shutdown(absl::ZeroDuration()); });
  }
  for (std::thread& thread : threads) thread.join();
  struct stat info;
  EXPECT_NE(stat(socket_path().c_str(), &info), 0);
}

TEST_F(ServerTest, AfterShutdownCallsAreUnavailable) {
  server_->Shutdown(absl::ZeroDuration());
  server_->Shutdown(absl::ZeroDuration());
  grpc::ClientContext context;
  v1::InfoResponse response;
  EXPECT_EQ(daemon_->Info(&context, {}, &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace mpsd::rpc
