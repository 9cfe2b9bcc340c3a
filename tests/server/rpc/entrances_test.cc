// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/entrances.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/base/limits.h"
#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/rpc/server.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

// Tokens in memory.
class FakeTokens final : public access::TokenLookup {
 public:
  void Put(const std::string& secret, const std::string& user, Role role) {
    absl::MutexLock lock(&mutex_);
    callers_[secret] = {user, role, access::Way::kToken, "token 0a1b2c3d4e5f",
                        ""};
  }
  void Revoke(const std::string& secret) {
    absl::MutexLock lock(&mutex_);
    callers_.erase(secret);
  }
  std::optional<access::Caller> Find(std::string_view secret) override {
    absl::MutexLock lock(&mutex_);
    const auto found = callers_.find(std::string(secret));
    if (found == callers_.end()) return std::nullopt;
    return found->second;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, access::Caller> callers_ ABSL_GUARDED_BY(mutex_);
};

// Answers who it takes the caller for: "bob user socket uid 504 this machine".
class WhoService final : public v1::DaemonService::CallbackService {
 public:
  explicit WhoService(Identify identify) : identify_(std::move(identify)) {}
  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext* context,
                                 const v1::InfoRequest*,
                                 v1::InfoResponse* response) override {
    const absl::StatusOr<access::Caller> caller = identify_(*context);
    if (caller.ok()) {
      response->set_version(caller->user + " " +
                            std::string(access::Name(caller->role)) + " " +
                            std::string(access::Name(caller->way)) + " " +
                            caller->credential + " " + caller->origin);
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(caller.status()));
    return reactor;
  }

 private:
  const Identify identify_;
};

// Lines that threads write which may outlive a test.
class Lines {
 public:
  void Add(const std::string& line) {
    absl::MutexLock lock(&mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> All() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

// A server whose listener says of each connection what the test wants.
class EntrancesTest : public testing::Test {
 protected:
  EntrancesTest() {
    tokens_.Put("good", "eve", Role::kViewer);
    options_.known.tokens = &tokens_;
    options_.known.roles = {501, {"ada"}, {"guest"}};
    options_.name = [](uid_t uid) -> absl::StatusOr<std::string> {
      return Name(uid);
    };
    options_.port = grpc::experimental::LocalServerCredentials(LOCAL_TCP);
    options_.log = [lines = log_](const std::string& line) {
      lines->Add(line);
    };
    options_.refused = [lines = refused_](std::string_view path,
                                          const absl::Status& why) {
      lines->Add(std::string(path) + " " + std::string(why.message()));
    };
  }
  ~EntrancesTest() override {
    listener_->Stop();
    entrances_->Close();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  void Serve() {
    grpc::EnableDefaultHealthCheckService(true);
    service_ = std::make_unique<WhoService>(MakeIdentify(options_.known));
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    auto entrances = Entrances::Open(options_, builder);
    ASSERT_TRUE(entrances.ok()) << entrances.status();
    entrances_ = *std::move(entrances);
    listener::Listener::Options listen;
    listen.addresses = {"unix:" + (folder_ / "socket").string(), "127.0.0.1:0"};
    auto listener = listener::Listener::Open(listen);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    listener_->Start([this](listener::Accepted accepted) {
      if (accepted.peer) accepted.peer->uid = next_uid_;
      entrances_->Take(accepted);
    });
  }

  std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
  }
  // A connection that the kernel says is the account's.
  std::shared_ptr<grpc::Channel> ConnectAs(uid_t uid) {
    next_uid_ = uid;
    auto channel = Connect(listener_->addresses()[0]);
    EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() +
                                          absl::ToChronoSeconds(kPatience)));
    return channel;
  }
  std::shared_ptr<grpc::Channel> ConnectByPort() {
    return Connect(listener_->addresses()[1]);
  }

  // What WhoService says, or the error's code and message.
  static std::string Who(
      const std::shared_ptr<grpc::Channel>& channel,
      const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoSeconds(kPatience));
    for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
    v1::InfoResponse response;
    const grpc::Status status =
        v1::DaemonService::NewStub(channel)->Info(&context, {}, &response);
    return status.ok() ? response.version()
                       : absl::StrCat(static_cast<int>(status.error_code()),
                                      " ", status.error_message());
  }
  std::string WhoIs(uid_t uid) { return Who(ConnectAs(uid)); }

  std::vector<std::string> Logged() { return log_->All(); }
  std::vector<std::string> Refused() { return refused_->All(); }
  static std::string Name(uid_t uid) {
    if (uid == 501) return "me";
    if (uid == 502) return "ada";
    if (uid == 503) return "guest";
    return access::UserOf(uid, uid < 1000 ? absl::StrCat("u", uid) : "");
  }

  const std::filesystem::path folder_ = testing_support::FreshFolder("enter");
  FakeTokens tokens_;
  Entrances::Options options_;
  const std::shared_ptr<Lines> log_ = std::make_shared<Lines>();
  const std::shared_ptr<Lines> refused_ = std::make_shared<Lines>();
  std::atomic<uid_t> next_uid_ = 501;
  std::unique_ptr<WhoService> service_;
  std::unique_ptr<Entrances> entrances_;
  std::unique_ptr<listener::Listener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EntrancesTest, TheKernelsWordMakesAUser) {
  Serve();
  EXPECT_EQ(WhoIs(501), "me admin socket uid 501 this machine");
  EXPECT_EQ(WhoIs(0), "u0 admin socket uid 0 this machine");
  EXPECT_EQ(WhoIs(502), "ada admin socket uid 502 this machine");
  EXPECT_EQ(WhoIs(503), "guest viewer socket uid 503 this machine");
  EXPECT_EQ(WhoIs(504), "u504 user socket uid 504 this machine");
  EXPECT_EQ(WhoIs(4711), "uid-4711 user socket uid 4711 this machine");
  EXPECT_THAT(Refused(), testing::IsEmpty());
}

TEST_F(EntrancesTest, EveryCallOfAConnectionIsTheSameUsers) {
  Serve();
  const auto bobs = ConnectAs(504), adas = ConnectAs(502);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 50; ++call) {
        if (!Who(bobs).starts_with("u504 user")) ++wrong;
        if (!Who(adas).starts_with("ada admin")) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(EntrancesTest, MetadataDoesNotChangeTheUser) {
  Serve();
  EXPECT_EQ(Who(ConnectAs(504), {{"mpsd-uid", "501"},
                                 {"mpsd-user", "me"},
                                 {"x509_common_name", "ada"},
                                 {"x-forwarded-for", "10.0.0.1"},
                                 {"authorization", "Bearer good"}}),
            "u504 user socket uid 504 this machine");
  EXPECT_THAT(Who(ConnectByPort(), {{"mpsd-uid", "501"}, {"mpsd-user", "me"}}),
              HasSubstr("mpsctl login"));
}

TEST_F(EntrancesTest, OnlyThisManyAccountsAreDistinguished) {
  options_.accounts = 3;
  Serve();
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (uid_t uid : {600, 601, 602}) channels.push_back(ConnectAs(uid));
  const auto one_more = ConnectAs(603);
  EXPECT_THAT(Who(one_more), HasSubstr("3 accounts of this machine"));
  EXPECT_THAT(Logged(), testing::ElementsAre(HasSubstr(
                            "calls of the account u603 (603) are refused")));
  EXPECT_THAT(Refused(), testing::ElementsAre(HasSubstr(
                             "/mpsd.v1.DaemonService/Info 3 accounts")));
  for (uid_t uid : {600, 601, 602}) {
    EXPECT_THAT(Who(channels[uid - 600]), HasSubstr(absl::StrCat("u", uid)));
    EXPECT_THAT(WhoIs(uid), HasSubstr(absl::StrCat("u", uid)));
  }
  // The daemon's own account has its place.
  EXPECT_THAT(WhoIs(501), HasSubstr("me admin"));
}

// The kernel gives accounts of other user namespaces this number, all of them.
TEST_F(EntrancesTest, TheOverflowUserIsNoUser) {
  Serve();
  for (uid_t uid : {uid_t{65534}, static_cast<uid_t>(-2)}) {
    EXPECT_THAT(WhoIs(uid), HasSubstr("use a port with a token"));
  }
}

TEST_F(EntrancesTest, ANameServiceThatHangsDelaysNoOtherUser) {
  const auto answered = std::make_shared<absl::Notification>();
  const auto asked = std::make_shared<std::atomic<bool>>(false);
  options_.name = [answered, asked](uid_t uid) -> absl::StatusOr<std::string> {
    if (uid == 600) {
      *asked = true;
      answered->WaitForNotification();
    }
    return Name(uid);
  };
  Serve();
  next_uid_ = 600;
  const auto waiting = Connect(listener_->addresses()[0]);
  std::thread call([&] { EXPECT_THAT(Who(waiting), HasSubstr("u600 user")); });
  // From then on the next connection may be another account's.
  while (!*asked) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(WhoIs(601), HasSubstr("u601 user"));
  EXPECT_THAT(WhoIs(501), HasSubstr("me admin"));
  answered->Notify();
  call.join();
}

// Connections that hang with the name service are bounded.
TEST_F(EntrancesTest, SoManyNamesAreLookedUpAtATime) {
  const auto answered = std::make_shared<absl::Notification>();
  options_.name = [answered](uid_t uid) -> absl::StatusOr<std::string> {
    if (uid != 501) answered->WaitForNotification();
    return Name(uid);
  };
  Serve();
  next_uid_ = 600;
  std::vector<int> clients;
  while (Logged().empty()) {
    absl::SleepFor(absl::Milliseconds(1));
    // More than enough: a listener that is held up must not find this process
    // without descriptors.
    if (clients.size() == 64) continue;
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un name = SocketName(folder_ / "socket");
    ASSERT_EQ(
        connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    clients.push_back(fd);
  }
  EXPECT_THAT(Logged()[0], HasSubstr("the names of 16 accounts"));
  EXPECT_THAT(WhoIs(501), HasSubstr("me admin"));
  answered->Notify();
  for (int fd : clients) close(fd);
}

TEST_F(EntrancesTest, ANameServiceThatFailsAdmitsNoUser) {
  std::atomic<bool> works = false;
  options_.name = [&](uid_t uid) -> absl::StatusOr<std::string> {
    if (uid != 501 && !works) return absl::UnavailableError("no name service");
    return Name(uid);
  };
  Serve();
  next_uid_ = 600;
  const auto channel = Connect(listener_->addresses()[0]);
  EXPECT_THAT(Who(channel), HasSubstr("14 "));  // UNAVAILABLE
  EXPECT_THAT(Logged()[0], HasSubstr("no name service"));
  works = true;
  EXPECT_THAT(WhoIs(600), HasSubstr("u600 user"));
}

// Had the account been given its number for ever, its jobs would be another
// user's.
TEST_F(EntrancesTest, AnAccountThatGetsItsNameLaterHasIt) {
  std::atomic<bool> has_name = false;
  options_.name = [&](uid_t uid) -> absl::StatusOr<std::string> {
    if (uid != 600) return Name(uid);
    return access::UserOf(uid, has_name ? "late" : "");
  };
  Serve();
  EXPECT_THAT(WhoIs(600), HasSubstr("uid-600 user"));
  has_name = true;
  EXPECT_THAT(WhoIs(600), HasSubstr("late user socket uid 600"));
}

TEST_F(EntrancesTest, TheOwnersNameMustBeKnown) {
  options_.name = [](uid_t) -> absl::StatusOr<std::string> {
    return absl::UnavailableError("no name service");
  };
  grpc::ServerBuilder builder;
  EXPECT_TRUE(absl::IsUnavailable(Entrances::Open(options_, builder).status()));
  options_.name = [](uid_t uid) { return Name(uid); };
  Serve();
}

TEST_F(EntrancesTest, APortWantsAToken) {
  Serve();
  const auto channel = ConnectByPort();
  EXPECT_THAT(Who(channel), HasSubstr("16 no token came with the call"));
  EXPECT_THAT(Who(channel, {{"authorization", "Bearer bad"}}),
              HasSubstr("16 the token is not known"));
  EXPECT_EQ(Who(channel, {{"authorization", "Bearer good"}}),
            "eve viewer token token 0a1b2c3d4e5f 127.0.0.1");
  // One connection may carry calls of several users.
  tokens_.Put("other", "bob", Role::kAdmin);
  EXPECT_THAT(Who(channel, {{"authorization", "Bearer other"}}),
              HasSubstr("bob admin"));
  EXPECT_THAT(Who(channel, {{"authorization", "Bearer good"}}),
              HasSubstr("eve viewer"));
  tokens_.Revoke("good");
  EXPECT_THAT(Who(channel, {{"authorization", "Bearer good"}}),
              testing::AllOf(HasSubstr("16 the token is not known"),
                             HasSubstr("mpsctl login")));
  EXPECT_EQ(Refused().size(), 3u);
}

TEST_F(EntrancesTest, AStrangerMayAskForTheHealthAndNothingElse) {
  Serve();
  grpc::ClientContext context;
  EXPECT_TRUE(AskHealth(listener_->addresses()[1], kPatience, context).ok());
  const auto ask = [&](const std::string& method) {
    return CallBytes(Api(ConnectByPort()), method, "").status().code();
  };
  for (const char* method :
       {"/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check/",
        "/grpc.health.v1.Health/check", "/mpsd.v1.JobService/List",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/no.such/Method"}) {
    EXPECT_EQ(ask(method), StatusCode::kUnauthenticated) << method;
  }
}

// gRPC would let the messages of a stranger in before a handler could refuse.
TEST_F(EntrancesTest, AStrangersMessageIsNotReadFirst) {
  Serve();
  grpc::GenericStub stub(ConnectByPort());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, "/mpsd.v1.DaemonService/Info", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);  // no message was sent
  queue.Next(&tag, &ok);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

TEST_F(EntrancesTest, WithoutAPortItsConnectionsAreClosed) {
  options_.port = nullptr;
  Serve();
  EXPECT_THAT(Who(ConnectByPort(), {{"authorization", "Bearer good"}}),
              HasSubstr("14 "));  // UNAVAILABLE
}

TEST_F(EntrancesTest, WhatComesAfterTheEndIsClosed) {
  Serve();
  entrances_->Close();
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  entrances_->Take({-1, pair[0], listener::Peer{501, 0}});
  char byte;
  EXPECT_EQ(read(pair[1], &byte, 1), 0);
  close(pair[1]);
}

// A connection's notes in memory.
class FakeConnection final : public grpc::AuthContext {
 public:
  bool IsPeerAuthenticated() const override { return false; }
  std::vector<grpc::string_ref> GetPeerIdentity() const override { return {}; }
  std::string GetPeerIdentityPropertyName() const override { return ""; }
  std::vector<grpc::string_ref> FindPropertyValues(
      const std::string& name) const override {
    std::vector<grpc::string_ref> values;
    for (const auto& [key, value] : properties_) {
      if (key == name) values.push_back(value);
    }
    return values;
  }
  grpc::AuthPropertyIterator begin() const override { return Nothing(); }
  grpc::AuthPropertyIterator end() const override { return Nothing(); }
  void AddProperty(const std::string& key,
                   const grpc::string_ref& value) override {
    properties_.emplace_back(key, std::string(value.data(), value.size()));
  }
  bool SetPeerIdentityPropertyName(const std::string&) override {
    return false;
  }
  size_t size() const { return properties_.size(); }

 private:
  struct Nothing : grpc::AuthPropertyIterator {};
  std::list<std::pair<std::string, std::string>> properties_;
};

TEST(ConnectionNotesTest, ANoteIsWrittenOnce) {
  KnownCallers known;
  known.roles = {501, {"ada"}, {"guest"}};
  FakeConnection connection;
  NoteAccount(504, "bob", connection);
  NoteAccount(0, "root", connection);
  EXPECT_EQ(CallerOf(connection, {}, known)->user, "bob");
  EXPECT_EQ(connection.size(), 2u);
  // Without any tokens no token is known.
  const absl::Status status =
      CallerOf(FakeConnection(), {{"authorization", "Bearer good"}}, known)
          .status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not known"));
}

TEST(BearerTokenTest, WhatIsNoTokenIsRefusedAndNotQuoted) {
  const std::string long_token =
      "Bearer " + std::string(limits::kTokenBytes + 1, 'a');
  for (const std::string& value :
       {std::string("Basic c2VjcmV0"), std::string("Bearer"),
        std::string("Bearer "), std::string("c2VjcmV0"), std::string(""),
        long_token}) {
    const absl::Status status =
        BearerToken({{"authorization", value}}).status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << value;
    EXPECT_EQ(std::string(status.message()).find("c2Vj"), std::string::npos);
  }
  EXPECT_TRUE(
      BearerToken({{"authorization", grpc::string_ref(long_token.data(),
                                                      long_token.size() - 1)}})
          .ok());
  // It is not guessed which of two counts.
  EXPECT_TRUE(
      absl::IsUnauthenticated(BearerToken({{"authorization", "Bearer a"},
                                           {"authorization", "Bearer b"}})
                                  .status()));
}

TEST(OriginTest, SaysWhereACallCameFrom) {
  EXPECT_EQ(Origin("ipv4:10.0.0.1:4711"), "10.0.0.1");
  EXPECT_EQ(Origin("ipv6:%5B::1%5D:4711"), "::1");
  EXPECT_EQ(Origin("ipv6:[fe80::1%25en0]:4711"), "fe80::1%en0");
  EXPECT_EQ(Origin("ipv6:%5B::ffff:10.0.0.1%5D:1"), "10.0.0.1");
  EXPECT_EQ(Origin("unix:"), "this machine");
  EXPECT_EQ(Origin("unix:/run/mpsd.sock"), "this machine");
}

}  // namespace
}  // namespace mpsd::rpc
