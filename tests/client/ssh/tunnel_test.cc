// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/tunnel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/time/clock.h"

namespace mpsd::ssh {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

// The end of the tunnel: a server that speaks first, as gRPC's does.
class Server {
 public:
  explicit Server(const fs::path& path) : path_(path) {
    fs::create_directories(path.parent_path());
    listener_ = Descriptor(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
    listen(listener_.get(), 8);
    thread_ = std::thread([this] {
      while (true) {
        const Descriptor end(accept(listener_.get(), nullptr, nullptr));
        if (!end.valid() || stopped_) return;
        if (speaks_) (void)!write(end.get(), "x", 1);
      }
    });
  }
  ~Server() {
    stopped_ = true;
    const Descriptor end(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(end.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    thread_.join();
  }
  void Hush() { speaks_ = false; }

 private:
  const fs::path path_;
  Descriptor listener_;
  std::atomic<bool> stopped_{false}, speaks_{true};
  std::thread thread_;
};

// ssh is a script that runs the session here and forwards by a link.
class TunnelTest : public testing::Test {
 protected:
  TunnelTest() {
    std::string name = "/tmp/mpsdXXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    setenv("MPSD_SSH", (folder_ / "ssh").c_str(), 1);
    setenv("HOME", folder_.c_str(), 1);
    unsetenv("MPSD_STATE_DIR");
    Ssh("echo $$ >>" + Started() + "; exec /bin/sh -s");
  }
  ~TunnelTest() override {
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("MPSD_SSH");
    fs::remove_all(folder_);
  }

  std::string Started() const { return (folder_ / "started").string(); }
  // What the session of the pretended ssh does.
  void Ssh(const std::string& session) {
    const fs::path program = folder_ / "ssh";
    std::ofstream(program)
        << "#!/bin/sh\n"
        << "for word; do case $word in forward) is_forward=1;; "
           "*:*) places=$word;; esac; done\n"
        << "if [ -n \"$is_forward\" ]; then\n"
        << "  exec ln -s \"${places#*:}\" \"${places%%:*}\"\nfi\n"
        << session << '\n';
    fs::permissions(program, fs::perms::owner_all);
  }
  std::vector<pid_t> Pids() const {
    std::ifstream in(Started());
    return {std::istream_iterator<pid_t>(in), {}};
  }
  std::string Url() const {
    return "ssh://studio" + (folder_ / "m.sock").string();
  }
  // Kills a child and waits until it has ended. It is not reaped: that is the
  // tunnel's part.
  static void Kill(pid_t pid) {
    kill(pid, SIGKILL);
    siginfo_t ended = {};
    EXPECT_EQ(waitid(P_PID, pid, &ended, WEXITED | WNOWAIT), 0);
  }
  static void AwaitEnd(pid_t pid) {
    const absl::Time deadline = absl::Now() + kLong;
    while (kill(pid, 0) == 0 && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_EQ(kill(pid, 0), -1);
  }
  fs::path PrivateFolderOf(const Tunnel& tunnel) const {
    return fs::path(tunnel.target().substr(5)).parent_path();
  }

  fs::path folder_;
};

TEST_F(TunnelTest, LeadsToTheSocketThroughOneSsh) {
  Server server(folder_ / "m.sock");
  fs::path inner;
  pid_t ssh = 0;
  {
    Tunnel tunnel(Url());
    EXPECT_EQ(tunnel.target(), "unix:/dev/null");
    EXPECT_TRUE(tunnel.status().ok());
    ASSERT_TRUE(tunnel.Open().ok()) << tunnel.status();
    ASSERT_TRUE(tunnel.Open().ok());
    ASSERT_EQ(Pids().size(), 1u);
    ssh = Pids()[0];
    EXPECT_EQ(kill(ssh, 0), 0);
    EXPECT_TRUE(fs::is_socket(tunnel.target().substr(5)));
    inner = PrivateFolderOf(tunnel);
    struct stat facts;
    ASSERT_EQ(stat(inner.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0700u);
  }
  EXPECT_EQ(kill(ssh, 0), -1);
  EXPECT_FALSE(fs::exists(inner));
}

TEST_F(TunnelTest, ABrokenOneIsReplacedUnderTheSameName) {
  Server server(folder_ / "m.sock");
  Tunnel tunnel(Url());
  ASSERT_TRUE(tunnel.Open().ok());
  const std::string target = tunnel.target();
  Kill(Pids()[0]);
  ASSERT_TRUE(tunnel.Open().ok()) << tunnel.status();
  EXPECT_EQ(tunnel.target(), target);
  EXPECT_EQ(Pids().size(), 2u);
}

TEST_F(TunnelTest, ManyThreadsShareIt) {
  Server server(folder_ / "m.sock");
  Tunnel tunnel(Url());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(tunnel.Open().ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Pids().size(), 1u);
}

TEST_F(TunnelTest, AWrongUrlStartsNothing) {
  for (const char* url :
       {"ssh://-oProxyCommand=touch${IFS}x", "ssh://", "ssh://a;b"}) {
    Tunnel tunnel(url);
    EXPECT_EQ(tunnel.Open().code(), absl::StatusCode::kInvalidArgument) << url;
  }
  EXPECT_TRUE(Pids().empty());
}

TEST_F(TunnelTest, NoProgram) {
  setenv("MPSD_SSH", "no-such-ssh-of-mpsd", 1);
  Tunnel tunnel(Url());
  const absl::Status status = tunnel.Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("openssh-client"));
}

TEST_F(TunnelTest, NoMpsdTellsThePlaces) {
  Tunnel tunnel("ssh://studio");
  const absl::Status status = tunnel.Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no mpsd runs at studio: there is no socket at " +
                        folder_.string()));
}

TEST_F(TunnelTest, AServerThatLetsNobodyThrough) {
  Server server(folder_ / "m.sock");
  server.Hush();
  Tunnel tunnel(Url());
  const absl::Status status = tunnel.Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("forwards no sockets"));
}

TEST_F(TunnelTest, WhatSshSaysIsClassifiedAndShown) {
  Ssh("echo 'x@studio: Permission denied (publickey).' >&2; exit 255");
  Tunnel tunnel(Url());
  const absl::Status status = tunnel.Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("(publickey)"));
  EXPECT_EQ(tunnel.status(), status);
}

TEST_F(TunnelTest, ARefusalIsRepeatedWithoutAskingTheHostAgain) {
  Ssh("echo $$ >>" + Started() +
      "; echo 'x@studio: Permission denied (publickey).' >&2; exit 255");
  Tunnel tunnel(Url());
  const absl::Status status = tunnel.Open();
  absl::SleepFor(absl::Milliseconds(1100));
  EXPECT_EQ(tunnel.Open(), status);
  EXPECT_EQ(Pids().size(), 1u);
}

TEST_F(TunnelTest, AHostThatIsAwayIsTriedOnceASecond) {
  Ssh("echo $$ >>" + Started() +
      "; echo 'ssh: connect to host x: Connection refused' >&2; exit 255");
  Tunnel tunnel(Url());
  // Where the machine stood still for the second between two calls, the second
  // one tries again, and says nothing of the rule.
  bool at_once = false;
  for (int attempt = 0; attempt < 10 && !at_once; ++attempt) {
    EXPECT_FALSE(tunnel.Open().ok());
    const size_t tries = Pids().size();
    EXPECT_FALSE(tunnel.Open().ok());
    at_once = Pids().size() == tries;
  }
  EXPECT_TRUE(at_once);
  const size_t tries = Pids().size();
  absl::SleepFor(absl::Milliseconds(1100));
  EXPECT_FALSE(tunnel.Open().ok());
  EXPECT_EQ(Pids().size(), tries + 1);
}

TEST_F(TunnelTest, AnAccountWithoutAShell) {
  Ssh("echo This account is currently not available.; exit 1");
  Tunnel tunnel(Url());
  const absl::Status status = tunnel.Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("its shell says: This account is currently not"));
}

TEST_F(TunnelTest, ALoginShellThatGreetsDoesNoHarm) {
  Server server(folder_ / "m.sock");
  Ssh("echo Welcome to studio; echo; exec /bin/sh -s");
  Tunnel tunnel(Url());
  EXPECT_TRUE(tunnel.Open().ok()) << tunnel.status();
}

TEST_F(TunnelTest, AHostThatSpeaksWithoutEndIsLeft) {
  Ssh("exec yes");
  Tunnel tunnel(Url());
  EXPECT_FALSE(tunnel.Open().ok());
}

TEST_F(TunnelTest, AHostThatAsksForTheEnvironmentLearnsNothing) {
  Ssh("echo 'mpsd-socket /tmp/${HOME}/m.sock'; exec cat");
  Tunnel tunnel("ssh://studio");
  EXPECT_EQ(tunnel.Open().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TunnelTest, BreakEndsTheWaitAndTheSsh) {
  Ssh("echo $$ >>" + Started() + "; exec sleep 1000");
  Tunnel tunnel(Url());
  std::thread breaker([&] {
    while (Pids().empty()) absl::SleepFor(absl::Milliseconds(5));
    tunnel.Break();
  });
  EXPECT_EQ(tunnel.Open().code(), absl::StatusCode::kCancelled);
  breaker.join();
  AwaitEnd(Pids()[0]);
  EXPECT_EQ(tunnel.Open().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Pids().size(), 1u);
}

TEST_F(TunnelTest, SshMayWriteWithoutEndWhileTheTunnelIsOpen) {
  Server server(folder_ / "m.sock");
  Ssh("(sleep 0.2; yes | head -c 1000000 >&2; echo $$ >>" + Started() +
      ") & exec /bin/sh -s");
  Tunnel tunnel(Url());
  ASSERT_TRUE(tunnel.Open().ok());
  const absl::Time deadline = absl::Now() + kLong;
  while (Pids().empty() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_FALSE(Pids().empty()) << "ssh waits for a reader";
  ASSERT_TRUE(tunnel.Open().ok());
  EXPECT_LE(fs::file_size(PrivateFolderOf(tunnel) / "e"), 64u << 10);
}

}  // namespace
}  // namespace mpsd::ssh
