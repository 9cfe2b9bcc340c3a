// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/tunnel.h"

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
#include <thread>

#include "absl/time/clock.h"
#include "tests/core/status_matchers.h"

// client/daemons/find_socket.sh, which an ssh session runs at the host.

namespace mpsd::ssh {
namespace {

namespace fs = std::filesystem;

// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (valid()) close(number_);
  }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

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
    setenv("TMPDIR", folder_.c_str(), 1);
    setenv("MPSD_SSH", (folder_ / "ssh").c_str(), 1);
    setenv("HOME", folder_.c_str(), 1);
    unsetenv("MPSD_STATE_DIR");
    Ssh("exec /bin/sh -s");
  }
  ~TunnelTest() override {
    unsetenv("TMPDIR");
    unsetenv("MPSD_SSH");
    fs::remove_all(folder_);
  }

  std::string Started() const { return (folder_ / "started").string(); }
  // What the pretended ssh does where it does not forward, and where it does.
  void Ssh(const std::string& session,
           const std::string& tunnel = "exec sleep 1000") {
    const fs::path program = folder_ / "ssh";
    std::ofstream(program)
        << "#!/bin/sh\necho $$ >>" << Started()
        << "\nfor word; do case $word in -N) forward=1;; /*:/*) places=$word;; "
           "esac; done\n"
        << "if [ -n \"$forward\" ]; then\n"
        << "  ln -s \"${places#*:}\" \"${places%%:*}\"\n  " << tunnel
        << "\nfi\n"
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
  static void AwaitEnd(pid_t pid) {
    const absl::Time deadline = absl::Now() + kLong;
    while (kill(pid, 0) == 0 && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_EQ(kill(pid, 0), -1);
  }
  fs::path FolderOf(const Tunnel& tunnel) const {
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
    inner = FolderOf(tunnel);
    struct stat facts;
    ASSERT_EQ(stat(inner.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0700u);
  }
  EXPECT_EQ(kill(ssh, 0), -1);
  EXPECT_FALSE(fs::exists(inner));
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
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-ssh-of-mpsd"));
}

TEST_F(TunnelTest, TheHostIsAskedOnceAndTheAnswerKept) {
  Server server(folder_ / "state" / "mpsd.sock");
  setenv("MPSD_STATE_DIR", (folder_ / "state").c_str(), 1);
  std::string kept;
  const auto keep = [&](const std::string& socket) { kept = socket; };
  ASSERT_TRUE(Tunnel("ssh://studio", "", keep).Open().ok());
  EXPECT_EQ(kept, (folder_ / "state" / "mpsd.sock").string());
  EXPECT_EQ(Pids().size(), 2u);
  EXPECT_TRUE(Tunnel("ssh://studio", kept, keep).Open().ok());
  EXPECT_EQ(Pids().size(), 3u) << "the answer is known";
  // Where the socket has moved the host is asked again.
  Server former(folder_ / "former.sock");
  former.Hush();
  EXPECT_TRUE(Tunnel("ssh://studio", (folder_ / "former.sock").string(), keep)
                  .Open()
                  .ok());
  EXPECT_EQ(Pids().size(), 6u);
}

TEST_F(TunnelTest, AHostWithoutAnAnswer) {
  const struct {
    const char* session;
    absl::StatusCode code;
    std::string said;
  } cases[] = {
      {"exec /bin/sh -s", absl::StatusCode::kUnavailable, "no mpsd runs here"},
      {"exec /bin/sh -s", absl::StatusCode::kUnavailable,
       folder_.string() + "/"},
      {"echo This account is currently not available. >&2; exit 1",
       absl::StatusCode::kUnavailable, "This account is currently not"},
      // It learns nothing of the environment.
      {"echo 'mpsd-socket /tmp/${HOME}/m.sock'; exec cat",
       absl::StatusCode::kInvalidArgument, ""}};
  for (const auto& one : cases) {
    Ssh(one.session);
    Tunnel tunnel("ssh://studio");
    const absl::Status status = tunnel.Open();
    EXPECT_EQ(status.code(), one.code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.said));
  }
  Ssh("exec yes");  // it speaks without end
  Tunnel tunnel("ssh://studio");
  EXPECT_FALSE(tunnel.Open().ok());
}

TEST_F(TunnelTest, WhatSshSaysIsClassifiedAndShown) {
  const struct {
    const char* said;
    absl::StatusCode code;
  } cases[] = {
      {"x@studio: Permission denied (publickey).",
       absl::StatusCode::kUnauthenticated},
      {"Host key verification failed.", absl::StatusCode::kUnauthenticated},
      {"connect to host x: Connection refused",
       absl::StatusCode::kUnavailable}};
  for (const auto& one : cases) {
    const std::string fails =
        std::string("echo '") + one.said + "' >&2; exit 255";
    Ssh(fails, fails);
    Tunnel tunnel(Url());
    const absl::Status status = tunnel.Open();
    EXPECT_EQ(status.code(), one.code) << one.said;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.said));
    EXPECT_EQ(tunnel.status(), status);
  }
}

TEST_F(TunnelTest, ASocketThatLetsNothingThrough) {
  Server server(folder_ / "m.sock");
  server.Hush();
  Ssh("", "echo 'channel 1: open failed: connect failed' >&2; exec sleep 1000");
  Tunnel tunnel(Url());
  const absl::Status status = tunnel.Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("nothing listens at " + folder_.string()),
                    HasSubstr("channel 1: open failed")));
}

TEST_F(TunnelTest, ALoginShellThatGreetsDoesNoHarm) {
  Server server(folder_ / "mpsd.sock");
  setenv("MPSD_STATE_DIR", folder_.c_str(), 1);
  Ssh("echo Welcome to studio; echo; exec /bin/sh -s");
  Tunnel tunnel("ssh://studio");
  EXPECT_TRUE(tunnel.Open().ok()) << tunnel.status();
}

TEST_F(TunnelTest, BreakEndsTheWaitAndTheSsh) {
  Ssh("exec sleep 1000");
  Tunnel tunnel("ssh://studio");
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

struct FoundSocket {
  std::string socket;  // empty: none
  std::string said;
  int code = 0;
};

class FindSocketTest : public testing::Test {
 protected:
  FindSocketTest() {
    std::string name = "/tmp/mpsdXXXXXX";
    folder_ = mkdtemp(name.data());
    home_ = folder_ / "home";
    fs::create_directories(home_);
    unsetenv("MPSD_STATE_DIR");
    unsetenv("XDG_CONFIG_HOME");
  }
  ~FindSocketTest() override { fs::remove_all(folder_); }

  std::string MakeSocket(const fs::path& path) {
    fs::create_directories(path.parent_path());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
              0)
        << path;
    close(fd);
    return path.string();
  }

  // Runs the script as ssh's session would: on the standard input of a shell.
  FoundSocket Run(const std::string& path, const std::string& shell = "sh") {
    std::string place = path;
    for (size_t at = 0; (at = place.find('\'', at)) != place.npos; at += 4) {
      place.replace(at, 1, R"('\'')");
    }
    const fs::path script = folder_ / "script";
    std::ofstream(script) << "place='" << place << "'\n"
                          << std::ifstream(fs::path(MPSD_TEST_SOURCE_DIR) /
                                           "client/daemons/find_socket.sh")
                                 .rdbuf();
    const std::string command = "HOME='" + home_.string() + "' " + shell +
                                " -s <'" + script.string() + "' 2>&1";
    FILE* stream = popen(command.c_str(), "r");
    FoundSocket found;
    for (int c; (c = fgetc(stream)) != EOF;) found.said.push_back(c);
    found.code = WEXITSTATUS(pclose(stream));
    constexpr std::string_view kFound = "mpsd-socket ";
    if (found.said.starts_with(kFound)) {
      found.socket = found.said.substr(kFound.size());
      found.socket.pop_back();
    }
    EXPECT_EQ(found.socket.empty(), found.code != 0) << found.said;
    return found;
  }

#ifdef __APPLE__
  const std::string default_ = "Library/Application Support/mpsd/mpsd.sock";
#else
  const std::string default_ = ".local/state/mpsd/mpsd.sock";
#endif
  fs::path folder_, home_;
};

TEST_F(FindSocketTest, InTheAccountsDefaultFolder) {
  const std::string socket = MakeSocket(home_ / default_);
  for (const char* shell : {"sh", "bash"}) {
    EXPECT_EQ(Run("", shell).socket, socket) << shell;
  }
}

TEST_F(FindSocketTest, TheStateFolderOfTheEnvironmentComesFirst) {
  MakeSocket(home_ / default_);
  const std::string socket = MakeSocket(folder_ / "state of ann" / "mpsd.sock");
  setenv("MPSD_STATE_DIR", (folder_ / "state of ann").c_str(), 1);
  EXPECT_EQ(Run("").socket, socket);
  unsetenv("MPSD_STATE_DIR");
}

TEST_F(FindSocketTest, WhereTheServiceFileOfTheAccountSays) {
  const std::string socket = MakeSocket(folder_ / "elsewhere" / "mpsd.sock");
  const std::string state = (folder_ / "elsewhere").string();
#ifdef __APPLE__
  const char* source = "launchd/org.mpsd.agent.plist";
  const fs::path service = home_ / "Library/LaunchAgents/org.mpsd.agent.plist";
#else
  const char* source = "systemd/mpsd.user.service";
  const fs::path service = home_ / ".config/systemd/user/mpsd.service";
#endif
  fs::create_directories(service.parent_path());
  std::ifstream in(fs::path(MPSD_TEST_SOURCE_DIR) / "deploy" / source);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  for (size_t at; (at = text.find("@STATE@")) != std::string::npos;) {
    text.replace(at, 7, state);
  }
  std::ofstream(service) << text;
  EXPECT_EQ(Run("").socket, socket);
}

// MakeSocket's are those of programs that have ended.
TEST_F(FindSocketTest, ALivingSocketComesBeforeADeadOne) {
  const std::string dead = MakeSocket(home_ / default_);
  EXPECT_EQ(Run("").socket, dead);
  setenv("MPSD_STATE_DIR", folder_.c_str(), 1);
  const std::string other = MakeSocket(folder_ / "mpsd.sock");
  fs::remove(dead);
  const int living = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  dead.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(
      bind(living, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(living, 1), 0);
  EXPECT_EQ(Run("").socket, dead);
  close(living);
  EXPECT_EQ(Run("").socket, other);
  unsetenv("MPSD_STATE_DIR");
}

TEST_F(FindSocketTest, ThePathThatIsGivenWins) {
  MakeSocket(home_ / default_);
  const std::string socket = MakeSocket(folder_ / "a b" / "mpsd.sock");
  EXPECT_EQ(Run(socket).socket, socket);
  EXPECT_EQ(Run((folder_ / "a b").string()).socket, socket);
  EXPECT_EQ(Run((folder_ / "a b/").string()).socket, socket);
  const FoundSocket none = Run((folder_ / "other.sock").string());
  EXPECT_EQ(none.code, 69);
  EXPECT_THAT(none.said,
              HasSubstr("at " + (folder_ / "other.sock").string() + ":"));
}

TEST_F(FindSocketTest, NoPathIsRunByTheShell) {
  const fs::path witness = folder_ / "witness";
  for (const std::string& name :
       {"'; touch " + witness.string() + " #",
        "$(touch " + witness.string() + ")", "`touch " + witness.string() + "`",
        std::string("\\"), std::string("%s%s\\n"), std::string("-n"),
        std::string("'\"$x")}) {
    EXPECT_EQ(Run("/none/" + name).socket, "") << name;
    EXPECT_FALSE(fs::exists(witness)) << name;
  }
  const std::string odd = MakeSocket(folder_ / "it's $HOME `x` \\n %s.sock");
  EXPECT_EQ(Run(odd).socket, odd);
}

TEST_F(FindSocketTest, ASocketOfAnotherAccountIsRecognized) {
  if (geteuid() == 0) GTEST_SKIP() << "root opens everything";
  const std::string socket = MakeSocket(folder_ / "closed" / "mpsd.sock");
  chmod(socket.c_str(), 0400);
  EXPECT_EQ(Run(socket).code, 77);
  EXPECT_THAT(Run(socket).said, HasSubstr(socket));
  chmod((folder_ / "closed").c_str(), 0000);
  EXPECT_EQ(Run(socket).code, 77);
  EXPECT_THAT(Run(socket).said, HasSubstr(socket));
  chmod((folder_ / "closed").c_str(), 0700);
}

TEST_F(FindSocketTest, AFileIsNoSocket) {
  fs::create_directories(home_ / fs::path(default_).parent_path());
  std::ofstream(home_ / default_) << "x";
  EXPECT_EQ(Run("").code, 69);
}

}  // namespace
}  // namespace mpsd::ssh
