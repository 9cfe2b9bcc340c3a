// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::listener {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The name of a unix socket.
struct SocketName : sockaddr_un {
  explicit SocketName(const std::string& path) : sockaddr_un{} {
    sun_family = AF_UNIX;
    path.copy(sun_path, sizeof(sun_path) - 1);
  }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(this);
  }
  static constexpr socklen_t kSize = sizeof(sockaddr_un);
};

class ListenerTest : public testing::Test {
 protected:
  ~ListenerTest() override {
    listener_.reset();
    CloseTaken();
    CloseClients();
  }
  void CloseTaken() {
    absl::MutexLock lock(&mutex_);
    for (int fd : taken_) close(fd);
    taken_.clear();
  }
  void CloseClients() {
    for (int fd : clients_) close(fd);
    clients_.clear();
  }

  std::string path() const { return (folder_ / "socket").string(); }
  void Listen(int max_descriptor = 1 << 30,
              std::optional<gid_t> socket_group = std::nullopt,
              absl::Duration stranger_age = absl::InfiniteDuration()) {
    Listener::Options options;
    options.stranger_age = stranger_age;
    options.socket_group = socket_group;
    options.addresses = {"unix:" + path(), "127.0.0.1:0"};
    options.max_descriptor = max_descriptor;
    options.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      log_.push_back(line);
    };
    auto opened = Listener::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    listener_ = *std::move(opened);
    listener_->Start([this](const Accepted& accepted) {
      absl::MutexLock lock(&mutex_);
      taken_.push_back(accepted.fd);
      peers_.push_back(accepted.peer);
    });
  }
  void Connect(int fd = socket(AF_UNIX, SOCK_STREAM, 0)) {
    clients_.push_back(fd);
    const SocketName name(path());
    EXPECT_EQ(connect(fd, name.get(), name.kSize), 0);
  }
  void ConnectTcp() {
    const std::string address = listener_->addresses()[1];
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    clients_.push_back(fd);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  }
  // One connection after the other: a listener that is held up would otherwise
  // find this process without descriptors.
  void ConnectUntilItComplains() {
    while (Logged().empty()) {
      ConnectTcp();
      while (Taken() < clients_.size() && Logged().empty()) {
        absl::SleepFor(absl::Milliseconds(1));
      }
    }
  }
  void AwaitTaken(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return taken_.size() >= count;
    };
    mutex_.Await(absl::Condition(&reached));
    EXPECT_EQ(taken_.size(), count);
  }
  size_t Taken() {
    absl::MutexLock lock(&mutex_);
    return taken_.size();
  }
  std::vector<std::string> Logged() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }

  // Why nothing listens on `address`.
  static std::string Fault(const std::string& address) {
    Listener::Options options;
    options.addresses = {address};
    const absl::Status status = Listener::Open(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    return std::string(status.message());
  }

  const std::filesystem::path folder_ = testing_support::FreshFolder("listen");
  std::vector<int> clients_;
  absl::Mutex mutex_;
  std::vector<int> taken_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::optional<Peer>> peers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Listener> listener_;
};

// Whether the other side has closed the connection.
bool IsClosed(int fd) {
  char byte;
  return recv(fd, &byte, 1, 0) == 0;
}

TEST_F(ListenerTest, GivesConnectionsAwayAndSaysWhoCame) {
  Listen();
  Connect();
  AwaitTaken(1);
  ConnectTcp();
  AwaitTaken(2);
  absl::MutexLock lock(&mutex_);
  for (int fd : taken_) {
    EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  ASSERT_TRUE(peers_[0].has_value());
  EXPECT_EQ(peers_[0]->uid, geteuid());
  EXPECT_EQ(peers_[0]->pid, getpid());
  EXPECT_FALSE(peers_[1].has_value());
  EXPECT_FALSE(PeerOf(-1).has_value());
}

// Connects as another account, by a path that needs no folder but the working
// one, and waits for the end of the connection.
[[noreturn]] void ConnectAs(uid_t uid, const std::filesystem::path& folder) {
  const SocketName name("socket");
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  const bool was_served = chdir(folder.c_str()) == 0 && seteuid(uid) == 0 &&
                          connect(client, name.get(), name.kSize) == 0 &&
                          seteuid(0) == 0 && IsClosed(client);
  _exit(was_served ? 0 : 1);
}

// A process that connects and becomes another account stays who it was.
TEST_F(ListenerTest, TheAccountIsTheOneThatConnected) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another account";
  constexpr uid_t kOther = 4711;
  Listen();
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(path().c_str(), 0666), 0);
  const pid_t child = fork();
  if (child == 0) ConnectAs(kOther, folder_);
  AwaitTaken(1);
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(peers_[0] && peers_[0]->uid == kOther);
  }
  CloseTaken();
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(ListenerTest, AGroupMayUseTheSocket) {
  // One that this account may give files to: any for root, else a group of its
  // own.
  std::vector<gid_t> groups(64);
  groups.resize(std::max(0, getgroups(64, groups.data())));
  const gid_t group = geteuid() == 0   ? 12345
                      : groups.empty() ? getegid()
                                       : groups.back();
  const mode_t mask = umask(022);
  Listen(1 << 30, group);
  EXPECT_EQ(umask(mask), 022u) << "listening leaves the umask as it was";
  struct stat info;
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  EXPECT_EQ(info.st_gid, group);
}

TEST_F(ListenerTest, LeavesNoSocket) {
  Listen();
  struct stat info;
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  listener_->Stop();
  listener_->Stop();
  EXPECT_NE(stat(path().c_str(), &info), 0);
}

// A unix socket of `path` on which no process listens.
void LeaveSocket(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const SocketName name(path);
  ASSERT_EQ(bind(fd, name.get(), name.kSize), 0);
  close(fd);
}

TEST_F(ListenerTest, ReplacesASocketThatADaemonLeft) {
  LeaveSocket(path());
  Listen();
  Connect();
  AwaitTaken(1);
}

TEST_F(ListenerTest, TakesNoSocketFromAnotherProgram) {
  Listen();
  EXPECT_THAT(Fault("unix:" + path()), HasSubstr("another program"));
  // The first listener still serves.
  AwaitTaken(1);
  Connect();
  AwaitTaken(2);
}

TEST_F(ListenerTest, LeavesAForeignFileInPlace) {
  const std::string file = (folder_ / "file").string();
  std::ofstream(file) << "precious";
  std::filesystem::create_symlink(file, path());
  for (const std::string& taken : {file, path()}) {
    EXPECT_THAT(Fault("unix:" + taken), HasSubstr("is not a socket"));
  }
  EXPECT_EQ(std::filesystem::file_size(file), 8u);
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
}

TEST_F(ListenerTest, LeavesTheSocketOfItsSuccessor) {
  Listen();
  std::filesystem::remove(path());
  LeaveSocket(path());
  listener_->Stop();
  EXPECT_TRUE(std::filesystem::is_socket(path()));
}

TEST_F(ListenerTest, KeepsDescriptorsForOthers) {
  const int lowest = dup(0);  // the next connection gets about this number
  close(lowest);
  Listen((lowest + 12) / 3 * 4 + 4);  // a port's share is three quarters
  ConnectUntilItComplains();
  EXPECT_THAT(Logged()[0], HasSubstr("open files"));
  EXPECT_TRUE(IsClosed(clients_.back()));
  // The process itself has its place.
  const size_t taken = Taken();
  Connect();
  AwaitTaken(taken + 1);
  CloseClients();
  // Those that were taken are given back: there is room again.
  CloseTaken();
  ConnectTcp();
  AwaitTaken(1);
}

class StrangersTest : public ListenerTest {
 protected:
  static std::string PortOf(int client) {
    sockaddr_in name{};
    socklen_t length = sizeof(name);
    getsockname(client, reinterpret_cast<sockaddr*>(&name), &length);
    return std::to_string(ntohs(name.sin_port));
  }
  // The client has proved who it is.
  void MakeKnown(int client, const std::string& user = "ada",
                 const std::string& credential = "a token") {
    listener_->Known("127.0.0.1", PortOf(client), user, credential);
  }
  static bool IsOpen(int client) {
    char byte;
    return recv(client, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
};

TEST_F(StrangersTest, WhoStaysUnknownIsClosed) {
  Listen(1 << 30, std::nullopt, absl::Milliseconds(300));
  ConnectTcp();
  AwaitTaken(1);
  MakeKnown(clients_[0]);
  ConnectTcp();
  Connect();
  AwaitTaken(3);
  EXPECT_TRUE(IsClosed(clients_[1]));
  absl::SleepFor(absl::Seconds(1));
  EXPECT_TRUE(IsOpen(clients_[0]));
  EXPECT_TRUE(IsOpen(clients_[2])) << "a unix socket's";
}

TEST_F(StrangersTest, WhoseCredentialIsForgottenIsAStrangerAgain) {
  Listen(1 << 30, std::nullopt, absl::Milliseconds(500));
  for (const char* token : {"one", "another", "one"}) {
    ConnectTcp();
    AwaitTaken(clients_.size());
    MakeKnown(clients_.back(), "ada", token);
  }
  MakeKnown(clients_[2], "ada", "another");  // over the same connection
  absl::SleepFor(absl::Seconds(1));
  listener_->Forget("one");
  EXPECT_TRUE(IsOpen(clients_[0])) << "it has a stranger's time";
  EXPECT_TRUE(IsClosed(clients_[0]));
  for (int i : {1, 2}) EXPECT_TRUE(IsOpen(clients_[i])) << i;
}

TEST_F(StrangersTest, AUserHasAShareAndTheOldestConnectionMakesRoom) {
  constexpr int kDescriptors = 256, kShare = kDescriptors / 16;
  Listen(kDescriptors, std::nullopt, absl::Hours(1));
  for (int i = 0; i < kShare + 2; ++i) {
    ConnectTcp();
    AwaitTaken(i + 1);
    MakeKnown(clients_[i], i == 1 ? "bob" : "ada");
    MakeKnown(clients_[2 * (i / 2)]);  // a further call
  }
  EXPECT_TRUE(IsClosed(clients_[0]));
  for (int i = 1; i < kShare + 2; ++i) EXPECT_TRUE(IsOpen(clients_[i])) << i;
}

#ifdef __linux__
TEST_F(StrangersTest, TheThreadSleepsUntilItIsNeeded) {
  const auto numbers = [](const char* folder) {
    std::set<int> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      found.insert(std::stoi(entry.path().filename()));
    }
    return found;
  };
  Listen(1 << 30, std::nullopt, absl::Hours(1));
  const size_t files = numbers("/proc/self/fd").size();
  const std::string status = absl::StrCat(
      "/proc/self/task/", *numbers("/proc/self/task").rbegin(), "/status");
  const auto wakes = [&] {
    int count[2];
    for (int& after : count) {
      absl::SleepFor(absl::Milliseconds(300));
      std::ifstream in(status);
      std::string word;
      while (word != "voluntary_ctxt_switches:") in >> word;
      in >> after;
    }
    return count[1] - count[0];
  };
  ConnectTcp();
  AwaitTaken(1);
  EXPECT_GT(wakes(), 3) << "a stranger";
  MakeKnown(clients_[0]);
  EXPECT_EQ(wakes(), 0) << "a user without a call";
  auto wait = listener_->Await("127.0.0.1", PortOf(clients_[0]));
  EXPECT_GT(wakes(), 3) << "a call without its message";
  wait.reset();
  EXPECT_EQ(wakes(), 0) << "the call has its message";
  shutdown(taken_[0], SHUT_RDWR);
  CloseClients();
  EXPECT_EQ(wakes(), 0) << "the connection ended";
  CloseTaken();
  EXPECT_EQ(numbers("/proc/self/fd").size(), files);
}
#endif

TEST_F(StrangersTest, AUsersUnfinishedMessagesHaveABound) {
  constexpr size_t kMib = 1 << 20;
  Listen(1 << 30, std::nullopt, absl::Hours(1));
  std::vector<std::unique_ptr<Listener::Wait>> waits;
  for (const char* user : {"ada", "ada", "bob", ""}) {
    ConnectTcp();
    AwaitTaken(clients_.size());
    if (*user != '\0') MakeKnown(clients_.back(), user);
    waits.push_back(listener_->Await("127.0.0.1", PortOf(clients_.back())));
  }
  const auto send = [&](size_t client, size_t bytes) {
    std::string piece(kMib / 16, 'x');
    absl::MutexLock lock(&mutex_);
    for (; bytes > 0; bytes -= piece.size()) {
      ::send(clients_[client], piece.data(), piece.size(), MSG_NOSIGNAL);
      while (recv(taken_[client], piece.data(), piece.size(), 0) > 0) {
      }
    }
  };
  const auto open = [&] {
    absl::SleepFor(absl::Seconds(1));
    std::vector<bool> open;
    for (int client : clients_) open.push_back(IsOpen(client));
    return open;
  };
  // Neither what calls got counts for those that wait meanwhile, nor the
  // messages of others.
  const auto idle = listener_->Await("127.0.0.1", PortOf(clients_[2]));
  for (int i = 0; i < 4; ++i) {
    send(2, 30 * kMib);
    waits[2]->Came(30 * kMib);
  }
  send(0, 15 * kMib);
  send(1, 20 * kMib);
  send(2, 30 * kMib);
  send(3, 2 * kMib);
  EXPECT_EQ(open(), (std::vector{true, true, true, false})) << "the stranger";
  send(0, 10 * kMib);
  EXPECT_EQ(open(), (std::vector{false, true, true, false})) << "ada's larger";
}

TEST_F(StrangersTest, AnAddressHasItsShareAndItsOldestStrangerMakesRoom) {
  constexpr int kDescriptors = 256, kShare = kDescriptors / 16;
  Listen(kDescriptors, std::nullopt, absl::Hours(1));
  for (int i = 0; i < kShare; ++i) {
    ConnectTcp();
    AwaitTaken(i + 1);
  }
  MakeKnown(clients_[0]);
  for (int i : {kShare, kShare + 1}) {
    ConnectTcp();
    AwaitTaken(i + 1);
  }
  EXPECT_TRUE(IsClosed(clients_[1]));
  for (int i : {0, 2, kShare}) EXPECT_TRUE(IsOpen(clients_[i])) << i;
  // Those who are known take no one's place.
  for (int client : clients_) MakeKnown(client, PortOf(client));
  const size_t known = clients_.size();
  for (int i = 0; i < kShare; ++i) {
    ConnectTcp();
    AwaitTaken(known + i + 1);
  }
  // One whose client and taker are gone is not counted.
  shutdown(clients_.back(), SHUT_RDWR);
  {
    absl::MutexLock lock(&mutex_);
    shutdown(taken_.back(), SHUT_RDWR);
  }
  ConnectTcp();
  AwaitTaken(known + kShare + 1);
  for (size_t i : {size_t{0}, size_t{2}, known}) {
    EXPECT_TRUE(IsOpen(clients_[i])) << i;
  }
}

// Connects as another process, so that the connection has no place of its own;
// returns whether it was kept.
bool IsKeptForAnother(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    const SocketName name(path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const timeval patience{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const bool connected = connect(fd, name.get(), name.kSize) == 0;
    _exit(connected && !IsClosed(fd) ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST_F(ListenerTest, StrangersWhoFillAPortLeaveTheSocketOpen) {
  const int lowest = dup(0);
  close(lowest);
  // The clients have numbers, too: a dozen connections fill the port.
  Listen((lowest + 24) / 3 * 4 + 20);
  ConnectUntilItComplains();
  EXPECT_THAT(Logged()[0], HasSubstr("a connection was refused"));
  EXPECT_TRUE(IsClosed(clients_.back()));
  EXPECT_TRUE(IsKeptForAnother(path()));
}

TEST_F(ListenerTest, ContinuesWhenDescriptorsRunOut) {
  Listen();
  Connect();
  AwaitTaken(1);
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(client), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Connect(client);
  while (Logged().empty()) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(Logged()[0], HasSubstr("no connection can be accepted"));
  AwaitTaken(2);
}

TEST_F(ListenerTest, ATcpAddressGetsItsPort) {
  EXPECT_THAT(Fault("300.1.1.1:80"), HasSubstr("300.1.1.1:80"));
  for (const char* address : {"127.0.0.1:0", "localhost:0", "[::1]:0"}) {
    Listener::Options options;
    options.addresses = {address};
    auto first = Listener::Open(options);
    if (!first.ok() && std::string(address).front() == '[') continue;
    ASSERT_TRUE(first.ok()) << first.status();
    const std::string bound = (*first)->addresses().front();
    EXPECT_NE(bound, address);
    EXPECT_THAT(Fault(bound),
                AllOf(HasSubstr(bound), HasSubstr("another program")));
  }
}

TEST(ListenAddress, LoopbackIsOfThisMachineAlone) {
  for (const char* address : {"localhost:1", "LocalHost:1", "127.0.0.1:1",
                              "127.9.9.9:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1", "mac.local:1",
        "localhost.example:1", "127.0.0.1.example:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(ListenAddress, WhatCannotBeIsRefused) {
  const std::string file =
      (testing_support::FreshFolder("address") / "file").string();
  std::ofstream(file) << "precious";
  EXPECT_TRUE(CheckListenAddress("127.0.0.1:0").ok());
  EXPECT_TRUE(CheckListenAddress("unix:" + file + ".sock").ok());
  const auto message = [](const std::string& address) {
    const absl::Status status = CheckListenAddress(address);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message("unix:/" + std::string(200, 'x')),
              HasSubstr("shorter --state-dir"));
  EXPECT_THAT(message("unix:" + file), HasSubstr("is not a socket"));
  EXPECT_THAT(message("unix:"), HasSubstr("expected HOST:PORT"));
  EXPECT_THAT(message("localhost"), HasSubstr("expected HOST:PORT"));
  for (const char* address : {"", ":9464", "9464", "localhost:http",
                              "localhost:70000", "localhost:-1"}) {
    EXPECT_THAT(message(address), HasSubstr("expected HOST:PORT"));
  }
}

}  // namespace
}  // namespace mpsd::listener
