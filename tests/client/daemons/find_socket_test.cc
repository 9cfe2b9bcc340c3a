// SPDX-License-Identifier: Apache-2.0
// client/daemons/find_socket.sh, which an ssh session runs at the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace mpsd::ssh {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

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

TEST_F(FindSocketTest, NowhereTellsEveryPlace) {
  const FoundSocket found = Run("");
  EXPECT_EQ(found.code, 69);
  EXPECT_THAT(found.said, HasSubstr((home_ / default_).string()));
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

TEST_F(FindSocketTest, ASocketOfSomebodyElseIsToldApart) {
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
