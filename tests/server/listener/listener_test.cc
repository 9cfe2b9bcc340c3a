// SPDX-License-Identifier: Apache-2.0
#include "server/listener/listener.h"

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
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::listener {
namespace {

using ::testing::HasSubstr;

class ListenerTest : public testing::Test {
 protected:
  ~ListenerTest() override {
    listener_.reset();
    CloseAll();
  }
  void CloseAll() {
    absl::MutexLock lock(&mutex_);
    for (int fd : taken_) close(fd);
    taken_.clear();
  }

  std::string path() const { return (folder_ / "socket").string(); }
  void Listen(int max_descriptor = 1 << 30,
              std::optional<gid_t> socket_group = std::nullopt) {
    Listener::Options options;
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
  int Connect() {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path().copy(name.sun_path, sizeof(name.sun_path) - 1);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    return fd;
  }
  int ConnectTcp() {
    const std::string address = listener_->addresses()[1];
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    return fd;
  }
  // One connection after the other: a listener that is held up would otherwise
  // find this process without descriptors.
  void ConnectUntilItComplains(std::vector<int>& clients) {
    while (Logged().empty()) {
      clients.push_back(ConnectTcp());
      while (Taken() < clients.size() && Logged().empty()) {
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

  const std::filesystem::path folder_ = testing_support::FreshFolder("listen");
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

TEST_F(ListenerTest, GivesConnectionsAway) {
  Listen();
  const int a = Connect(), b = Connect();
  AwaitTaken(2);
  absl::MutexLock lock(&mutex_);
  for (int fd : taken_) {
    EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
  close(a);
  close(b);
}

TEST_F(ListenerTest, SaysWhoCame) {
  Listen();
  const int by_socket = Connect();
  AwaitTaken(1);
  const int by_port = ConnectTcp();
  AwaitTaken(2);
  absl::MutexLock lock(&mutex_);
  ASSERT_TRUE(peers_[0].has_value());
  EXPECT_EQ(peers_[0]->uid, geteuid());
  EXPECT_EQ(peers_[0]->pid, getpid());
  EXPECT_FALSE(peers_[1].has_value());
  close(by_socket);
  close(by_port);
}

TEST_F(ListenerTest, AGroupMayUseTheSocket) {
  // One that this account may give files to: any for root, else a group of its
  // own.
  std::vector<gid_t> groups(64);
  groups.resize(std::max(0, getgroups(64, groups.data())));
  const gid_t group = geteuid() == 0   ? 12345
                      : groups.empty() ? getegid()
                                       : groups.back();
  Listen(1 << 30, group);
  struct stat info;
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  EXPECT_EQ(info.st_gid, group);
}

TEST_F(ListenerTest, LeavesNoSocketBehind) {
  Listen();
  struct stat info;
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  listener_->Stop();
  listener_->Stop();
  EXPECT_NE(stat(path().c_str(), &info), 0);
}

// A unix socket of `path` on which nobody listens.
void LeaveSocket(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  close(fd);
}

TEST_F(ListenerTest, ReplacesASocketThatADaemonLeft) {
  LeaveSocket(path());
  Listen();
  const int client = Connect();
  AwaitTaken(1);
  close(client);
}

TEST_F(ListenerTest, TakesNoSocketFromAnotherProgram) {
  Listen();
  Listener::Options options;
  options.addresses = {"unix:" + path()};
  const absl::Status second = Listener::Open(options).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another program"));
  // The first listener still serves.
  AwaitTaken(1);
  const int client = Connect();
  AwaitTaken(2);
  close(client);
}

TEST_F(ListenerTest, LeavesAForeignFileInPlace) {
  const std::string file = (folder_ / "file").string();
  std::ofstream(file) << "precious";
  std::filesystem::create_symlink(file, path());
  for (const std::string& taken : {file, path()}) {
    Listener::Options options;
    options.addresses = {"unix:" + taken};
    const absl::Status status = Listener::Open(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is no socket"));
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
  Listen(lowest + 12);
  std::vector<int> clients;
  ConnectUntilItComplains(clients);
  EXPECT_THAT(Logged()[0], HasSubstr("open files"));
  EXPECT_TRUE(IsClosed(clients.back()));
  // The process itself has its place.
  size_t taken;
  {
    absl::MutexLock lock(&mutex_);
    taken = taken_.size();
  }
  clients.push_back(Connect());
  AwaitTaken(taken + 1);
  for (int fd : clients) close(fd);
  // Those that were taken are given back: there is room again.
  CloseAll();
  const int client = ConnectTcp();
  AwaitTaken(1);
  close(client);
}

// Connects as another process, so that the connection has no place of its own;
// returns whether it was kept.
bool IsKeptForAnother(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.copy(name.sun_path, sizeof(name.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const timeval patience{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const bool connected =
        connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
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
  std::vector<int> clients;
  ConnectUntilItComplains(clients);
  EXPECT_THAT(Logged()[0], HasSubstr("a connection was refused"));
  EXPECT_TRUE(IsClosed(clients.back()));
  EXPECT_TRUE(IsKeptForAnother(path()));
  for (int fd : clients) close(fd);
}

TEST_F(ListenerTest, GoesOnWhenDescriptorsRunOut) {
  Listen();
  const int first = Connect();
  AwaitTaken(1);
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(client), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path().copy(name.sun_path, sizeof(name.sun_path) - 1);
  EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&name), sizeof(name)),
            0);
  while (Logged().empty()) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(Logged()[0], HasSubstr("no connection can be accepted"));
  AwaitTaken(2);
  close(first);
  close(client);
}

TEST_F(ListenerTest, ATcpAddressGetsItsPort) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "[::1]:0"}) {
    Listener::Options options;
    options.addresses = {address};
    auto first = Listener::Open(options);
    if (!first.ok() && std::string(address).front() == '[') continue;
    ASSERT_TRUE(first.ok()) << first.status();
    const std::string bound = (*first)->addresses().front();
    EXPECT_NE(bound, address);
    options.addresses = {bound};
    const absl::Status second = Listener::Open(options).status();
    EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(second.message()), HasSubstr(bound));
    EXPECT_THAT(std::string(second.message()), HasSubstr("another program"));
  }
}

TEST_F(ListenerTest, AHostThatIsNoneIsNamed) {
  Listener::Options options;
  options.addresses = {"300.1.1.1:80"};
  const absl::Status status = Listener::Open(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("300.1.1.1:80"));
}

}  // namespace
}  // namespace mpsd::listener
