// SPDX-License-Identifier: Apache-2.0
#include "server/listener/peer.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/core/scratch_folder.h"

namespace mpsd::listener {
namespace {

class PeerTest : public testing::Test {
 protected:
  PeerTest() {
    const std::string path = (folder_ / "socket").string();
    name_.sun_family = AF_UNIX;
    path.copy(name_.sun_path, sizeof(name_.sun_path) - 1);
    EXPECT_EQ(bind(socket_, Name(), sizeof(name_)), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
  }
  ~PeerTest() override { close(socket_); }
  sockaddr* Name() { return reinterpret_cast<sockaddr*>(&name_); }

  const std::filesystem::path folder_ = testing_support::FreshFolder("peer");
  sockaddr_un name_{};
  const int socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
};

TEST_F(PeerTest, ASocketsPeerIsTheProcessThatConnected) {
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(connect(client, Name(), sizeof(name_)), 0);
  const int fd = accept(socket_, nullptr, nullptr);
  const std::optional<Peer> peer = PeerOf(fd);
  ASSERT_TRUE(peer.has_value());
  EXPECT_EQ(peer->uid, geteuid());
  EXPECT_EQ(peer->pid, getpid());
  close(fd);
  close(client);
}

// Connects as another account, by a path that needs no folder but the working
// one, and waits for the end of the connection.
[[noreturn]] void ConnectAs(uid_t uid, const std::filesystem::path& folder) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::string("socket").copy(name.sun_path, sizeof(name.sun_path) - 1);
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  char byte;
  const bool was_served =
      chdir(folder.c_str()) == 0 && seteuid(uid) == 0 &&
      connect(client, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0 &&
      seteuid(0) == 0 && read(client, &byte, 1) == 0;
  _exit(was_served ? 0 : 1);
}

// Whoever connects and becomes another account stays who it was.
TEST_F(PeerTest, TheAccountIsTheOneThatConnected) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another account";
  constexpr uid_t kOther = 4711;
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chmod(name_.sun_path, 0666), 0);
  const pid_t child = fork();
  if (child == 0) ConnectAs(kOther, folder_);
  pollfd waiting{socket_, POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, 60'000), 1);  // in ms
  const int fd = accept(socket_, nullptr, nullptr);
  const std::optional<Peer> peer = PeerOf(fd);
  EXPECT_TRUE(peer && peer->uid == kOther);
  close(fd);
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(PeerTest, NobodyIsNamedForAPort) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listening, name, length), 0);
  ASSERT_EQ(listen(listening, 1), 0);
  ASSERT_EQ(getsockname(listening, name, &length), 0);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(client, name, length), 0);
  const int fd = accept(listening, nullptr, nullptr);
  EXPECT_FALSE(PeerOf(fd).has_value());
  EXPECT_FALSE(PeerOf(-1).has_value());
  for (int each : {fd, client, listening}) close(each);
}

}  // namespace
}  // namespace mpsd::listener
