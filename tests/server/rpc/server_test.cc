// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/api.h"
#include "tests/server/rpc/test_pki.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;

class ServerTest : public testing::Test {
 protected:
  // One more server in front of the same queue.
  std::unique_ptr<RpcServer> Another(Options options) {
    return std::make_unique<RpcServer>(std::move(options), *daemon_.scheduler,
                                       *daemon_.board, *daemon_.blobs,
                                       DaemonFacts());
  }
  Options At(const std::string& address) {
    Options options = daemon_.ServerOptions();
    options.addresses = {address};
    return options;
  }
  // A socket that no server serves.
  static int Bound(const std::string& path) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un name = SocketName(path);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)),
              0);
    return fd;
  }

  InProcessDaemon daemon_;
};

TEST_F(ServerTest, HealthAndReflectionKnowTheServices) {
  const std::vector<std::string> services = {
      "mpsd.v1.JobService", "mpsd.v1.ArtifactService", "mpsd.v1.DaemonService",
      "mpsd.v1.AccessService"};
  // grpc.health.v1.HealthCheckRequest{service = name}
  const auto health = [&](const std::string& name) {
    std::string request;
    if (!name.empty()) {
      request = "\x0a" + std::string(1, static_cast<char>(name.size())) + name;
    }
    return CallBytes(daemon_.admin(), "/grpc.health.v1.Health/Check", request);
  };
  // ServerReflectionRequest{list_services = "*"}
  const std::string listed = Ok(CallBytes(
      daemon_.admin(),
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      "\x3a\x01*"));
  const std::string serving("\x08\x01");  // HealthCheckResponse{status = 1}
  EXPECT_EQ(Ok(health("")), serving);
  for (const std::string& service : services) {
    EXPECT_EQ(Ok(health(service)), serving) << service;
    EXPECT_THAT(listed, HasSubstr(service));
  }
  EXPECT_THAT(health("mpsd.v1.Nothing"), Fails(StatusCode::kNotFound));
}

// Neither an interceptor nor a gate sees such a call.
TEST_F(ServerTest, ACallOfAStrangerIsCountedAndNoted) {
  const Api stranger = daemon_.Stranger();
  EXPECT_THAT(stranger.Call(&Jobs::List), Fails(StatusCode::kUnauthenticated));
  EXPECT_THAT(stranger.Call(&Jobs::Cancel),
              Fails(StatusCode::kUnauthenticated));
  EXPECT_THAT(
      daemon_.calls.Await(2),
      // A client has its answer before the report of its call.
      testing::UnorderedElementsAre(
          std::pair("JobService.List", StatusCode::kUnauthenticated),
          std::pair("JobService.Cancel", StatusCode::kUnauthenticated)));
  EXPECT_TRUE(daemon_.calls.AwaitOpen("JobService.List", 0));
  // Reading is not audited.
  const std::vector<access::AuditEntry> entries = daemon_.TakeAudit();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].request.method, "JobService.Cancel");
  EXPECT_EQ(entries[0].request.caller.user, "");
}

// No handler of ours sees the call.
TEST_F(ServerTest, AWatchOfTheHealthWithATokenIsNoStrangers) {
  Options options = At("127.0.0.1:0");
  options.stranger_age = absl::Seconds(1);
  const auto server = Another(options);
  ASSERT_THAT(server->Start(), IsOk());
  const Api eve(grpc::CreateChannel(server->addresses().front(),
                                    grpc::InsecureChannelCredentials()),
                daemon_.MakeToken("eve", Role::kUser).secret);
  grpc::GenericStub stub(eve.channel());
  grpc::ClientContext context;
  eve.Prepare(context);
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto await = [&] { return queue.Next(&tag, &ok) && ok; };
  call->StartCall(nullptr);
  ASSERT_TRUE(await());
  call->WriteLast(grpc::ByteBuffer(nullptr, 0), grpc::WriteOptions(), nullptr);
  ASSERT_TRUE(await());
  grpc::ByteBuffer health;
  call->Read(&health, nullptr);
  ASSERT_TRUE(await());
  call->Read(&health, nullptr);
  EXPECT_EQ(queue.AsyncNext(
                &tag, &ok,
                std::chrono::system_clock::now() + std::chrono::seconds(4)),
            grpc::CompletionQueue::TIMEOUT);
  context.TryCancel();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

TEST_F(ServerTest, AnAddressThatCannotBeServedIsNamed) {
  const std::string taken = daemon_.port_address();
  EXPECT_THAT(Another(At(taken))->Start(),
              Fails(StatusCode::kUnavailable, taken));
  for (const char* address : {"0.0.0.0:0", "[::]:0", "mac.local:0"}) {
    EXPECT_THAT(Another(At(address))->Start(),
                Fails(StatusCode::kInvalidArgument, "without a certificate"));
  }
}

TEST_F(ServerTest, ShutdownEndsWatchersAndFollowersAtOnce) {
  const std::string id = daemon_.Start();
  const auto watcher = Watch(daemon_.admin(), id);
  grpc::ClientContext context;
  auto follow = ById<v1::LogsRequest>(id);
  follow.set_follow(true);
  const auto follower = daemon_.admin().jobs()->Logs(&context, follow);
  ASSERT_TRUE(daemon_.calls.AwaitOpen("JobService.Watch", 1));
  ASSERT_TRUE(daemon_.calls.AwaitOpen("JobService.Logs", 1));
  // An hour of grace: it must not be needed.
  daemon_.server->Shutdown(absl::Hours(1));
  v1::JobEvent event;
  while (watcher->stream->Read(&event)) {
  }
  v1::LogChunk chunk;
  while (follower->Read(&chunk)) {
  }
  EXPECT_THAT(ToStatus(watcher->stream->Finish()),
              Fails(StatusCode::kUnavailable));
  EXPECT_THAT(ToStatus(follower->Finish()), Fails(StatusCode::kUnavailable));
}

TEST_F(ServerTest, ShutdownCancelsWhatDoesNotEnd) {
  const auto upload = BeginUpload(daemon_.admin());
  ASSERT_TRUE(upload->stream->Write(Header(std::string(64, 'a'), 5)));
  AwaitParts(daemon_, 1);
  daemon_.server->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(upload->Finish().ok());
}

TEST_F(ServerTest, ManyMayShutItDown) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back(
        [this] { daemon_.server->Shutdown(absl::ZeroDuration()); });
  }
  for (std::thread& thread : threads) thread.join();
  struct stat info;
  EXPECT_NE(stat(daemon_.socket_path().c_str(), &info), 0);
  EXPECT_THAT(daemon_.admin().Call(&DaemonApi::Info),
              Fails(StatusCode::kUnavailable));
}

class WatchdogTest : public ServerTest {
 protected:
  Watchdog::Options Impatient(const std::string& at) {
    Watchdog::Options options;
    options.address = at;
    options.interval = absl::Milliseconds(10);
    options.patience = absl::Milliseconds(200);
    options.deaf = [this](const std::string&) { deaf_.Notify(); };
    return options;
  }
  absl::Notification deaf_;
};

// It connects, and hears nothing.
TEST_F(WatchdogTest, ASocketThatIsNotAccepted) {
  const int fd = Bound(daemon_.socket_path() + ".deaf");
  ASSERT_EQ(listen(fd, 100), 0);
  {
    Watchdog watchdog(Impatient(daemon_.socket_address() + ".deaf"));
    deaf_.WaitForNotification();
  }
  close(fd);
}

TEST_F(WatchdogTest, ItsEndWaitsForNoAnswer) {
  Watchdog::Options options = Impatient(daemon_.socket_address() + ".none");
  options.patience = absl::Hours(1);
  {
    Watchdog watchdog(options);
    absl::SleepFor(absl::Milliseconds(100));  // it asks by now
  }
  EXPECT_FALSE(deaf_.HasBeenNotified());
}

// No thread of ours is needed to answer it, and no store.
TEST_F(WatchdogTest, ASlowDaemonIsNotDeaf) {
  std::vector<std::thread> submits;
  {
    absl::MutexLock hangs(&daemon_.database->writer().mutex());
    for (int i = 0; i < 20; ++i) {
      submits.emplace_back([this] {
        v1::SubmitRequest request;
        request.set_spec_json(daemon_.Spec());
        EXPECT_THAT(daemon_.admin().Call(&Jobs::Submit, request), IsOk());
      });
    }
    grpc::ClientContext context;
    EXPECT_THAT(AskHealth(daemon_.socket_address(), absl::Minutes(1), context),
                IsOk());
    Watchdog::Options options = Impatient(daemon_.socket_address());
    options.patience = absl::Minutes(1);
    Watchdog watchdog(options);
    EXPECT_FALSE(deaf_.WaitForNotificationWithTimeout(absl::Seconds(1)));
  }
  for (std::thread& submit : submits) submit.join();
}

// A port over TLS.
class ServerTlsTest : public ServerTest {
 protected:
  ServerTlsTest() { options_.tls = {pki_.Server(), daemon_.folder / "served"}; }
  ~ServerTlsTest() override { server_.reset(); }

  void Start() {
    server_ = Another(options_);
    ASSERT_THAT(server_->Start(), IsOk());
  }

  // `client`: a certificate to show; without files: no certificate.
  std::shared_ptr<grpc::Channel> Connect(const tls::ServerFiles& client = {}) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = tls::Content(pki_.authority());
    if (!client.key.empty()) {
      options.pem_private_key = tls::Content(client.key);
      options.pem_cert_chain = tls::Content(client.certificate);
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const std::string& address = server_->addresses().front();
    return grpc::CreateCustomChannel(
        "localhost" + address.substr(address.rfind(':')),
        grpc::SslCredentials(options), arguments);
  }
  absl::Status Ask(const std::shared_ptr<grpc::Channel>& channel,
                   const std::string& token) const {
    return Api(channel, token).Call(&DaemonApi::Info).status();
  }
  double HoursLeft() const {
    return absl::ToDoubleHours(*server_->certificate_expiry() - absl::Now());
  }

  const tls::TestPki pki_{daemon_.folder / "pki"};
  const std::string good_ = daemon_.MakeToken("eve", Role::kUser).secret;
  Options options_ = At("127.0.0.1:0");
  std::unique_ptr<RpcServer> server_;
};

TEST_F(ServerTlsTest, ATokenIsServedOverTls) {
  const mode_t mask = umask(0);
  Start();
  umask(mask);
  struct stat info;
  ASSERT_EQ(stat(options_.tls->served.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u) << "what is served is the owner's";
  EXPECT_THAT(Ask(Connect(), good_), IsOk());
  EXPECT_THAT(Ask(Connect(), "bad"), Fails(StatusCode::kUnauthenticated));
  EXPECT_THAT(Ask(Connect(), ""), Fails(StatusCode::kUnauthenticated));
  EXPECT_NEAR(HoursLeft(), 30 * 24, 1);
  const auto plain = grpc::CreateChannel(server_->addresses().front(),
                                         grpc::InsecureChannelCredentials());
  EXPECT_THAT(Ask(plain, good_), Fails(StatusCode::kUnavailable));
  // A client's certificate gives it no identity.
  EXPECT_THAT(Ask(Connect(pki_.Client("ada", "/CN=ada")), ""),
              Fails(StatusCode::kUnauthenticated));
}

TEST_F(ServerTlsTest, RenewalTakesWhatBelongsTogetherAlone) {
  Start();
  const tls::TestPki other(daemon_.folder / "other");
  const tls::ServerFiles renewed = other.Server("server", 60);
  const auto replace = [](const fs::path& from, const fs::path& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  };
  // A certificate whose key has not been copied yet.
  replace(renewed.certificate, options_.tls->files.certificate);
  EXPECT_THAT(server_->RenewTls(),
              testing_support::Says("the key is not the one of"));
  EXPECT_THAT(Ask(Connect(), good_), IsOk());
  EXPECT_NEAR(HoursLeft(), 30 * 24, 1);
  replace(renewed.key, options_.tls->files.key);
  EXPECT_THAT(server_->RenewTls(), IsOk());
  EXPECT_NEAR(HoursLeft(), 60 * 24, 1);
}

TEST_F(ServerTlsTest, FilesThatServeNothingAreNamed) {
  fs::remove(options_.tls->files.key);
  EXPECT_THAT(Another(options_)->Start(),
              testing_support::Says(options_.tls->files.key.string()));
  options_.tls->files = pki_.Server();
  options_.tls->served = daemon_.folder / "no" / "folder";
  EXPECT_THAT(Another(options_)->Start(), testing_support::Says("no/folder"));
  // Without a certificate there is nothing to renew.
  EXPECT_EQ(daemon_.server->certificate_expiry(), std::nullopt);
  EXPECT_THAT(daemon_.server->RenewTls(), IsOk());
}

}  // namespace
}  // namespace mpsd::rpc
