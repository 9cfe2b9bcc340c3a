// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/find_socket.h"

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
using testing::Contains;
using testing::ElementsAre;

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
    const fs::path script = folder_ / "script";
    std::ofstream(script) << FindSocketScript(path);
    const std::string command = "HOME='" + home_.string() + "' " + shell +
                                " -s <'" + script.string() + "' 2>&1";
    FILE* stream = popen(command.c_str(), "r");
    std::string output;
    for (int c; (c = fgetc(stream)) != EOF;) output.push_back(c);
    EXPECT_EQ(pclose(stream), 0) << output;
    const FoundSocket found = ReadFoundSocket(output);
    EXPECT_EQ(found.noise, "") << output;
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
  const FoundSocket alone = Run("");
  EXPECT_EQ(alone.socket, dead);
  EXPECT_FALSE(alone.listens);
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
  const FoundSocket both = Run("");
  EXPECT_EQ(both.socket, dead);
  EXPECT_TRUE(both.listens);
  EXPECT_THAT(both.looked, Contains(other));
  close(living);
  unsetenv("MPSD_STATE_DIR");
}

TEST_F(FindSocketTest, NowhereTellsEveryPlace) {
  const FoundSocket found = Run("");
  EXPECT_FALSE(found.socket);
  EXPECT_TRUE(found.none);
  EXPECT_THAT(found.looked, Contains((home_ / default_).string()));
}

TEST_F(FindSocketTest, ThePathThatIsGivenWins) {
  MakeSocket(home_ / default_);
  const std::string socket = MakeSocket(folder_ / "a b" / "mpsd.sock");
  EXPECT_EQ(Run(socket).socket, socket);
  EXPECT_EQ(Run((folder_ / "a b").string()).socket, socket);
  EXPECT_EQ(Run((folder_ / "a b/").string()).socket, socket);
  const FoundSocket none = Run((folder_ / "other.sock").string());
  EXPECT_FALSE(none.socket);
  EXPECT_THAT(none.looked, ElementsAre((folder_ / "other.sock").string()));
}

TEST_F(FindSocketTest, NoPathIsRunByTheShell) {
  const fs::path witness = folder_ / "witness";
  for (const std::string& name :
       {"'; touch " + witness.string() + " #",
        "$(touch " + witness.string() + ")", "`touch " + witness.string() + "`",
        std::string("\\"), std::string("%s%s\\n"), std::string("-n"),
        std::string("'\"$x")}) {
    EXPECT_FALSE(Run("/none/" + name).socket) << name;
    EXPECT_FALSE(fs::exists(witness)) << name;
  }
  const std::string odd = MakeSocket(folder_ / "it's $HOME `x` \\n %s.sock");
  EXPECT_EQ(Run(odd).socket, odd);
}

TEST_F(FindSocketTest, ASocketOfSomebodyElseIsToldApart) {
  if (geteuid() == 0) GTEST_SKIP() << "root opens everything";
  const std::string socket = MakeSocket(folder_ / "closed" / "mpsd.sock");
  chmod(socket.c_str(), 0400);
  EXPECT_THAT(Run(socket).refused, ElementsAre(socket));
  chmod((folder_ / "closed").c_str(), 0000);
  EXPECT_THAT(Run(socket).refused, ElementsAre(socket));
  chmod((folder_ / "closed").c_str(), 0700);
}

TEST_F(FindSocketTest, AFileIsNoSocket) {
  fs::create_directories(home_ / fs::path(default_).parent_path());
  std::ofstream(home_ / default_) << "x";
  EXPECT_FALSE(Run("").socket);
}

TEST(ReadFoundSocket, WhatALoginShellPrintsIsNoise) {
  const FoundSocket found = ReadFoundSocket(
      "Welcome\r\nmpsd-looked /a b\nmpsd-socket /a b\nmpsd-socket /c\nmpsd-so");
  EXPECT_EQ(found.noise, "Welcome");
  EXPECT_EQ(found.socket, "/a b");
  EXPECT_THAT(found.looked, ElementsAre("/a b"));
  EXPECT_FALSE(found.none);
}

TEST(ReadFoundSocket, ALineCountsOnceItIsWhole) {
  EXPECT_FALSE(ReadFoundSocket("mpsd-socket /a").socket);
  EXPECT_FALSE(ReadFoundSocket("mpsd-none").none);
  EXPECT_TRUE(ReadFoundSocket("mpsd-none\n").none);
}

TEST(ReadFoundSocket, AHostThatNamesPlacesWithoutEndIsBounded) {
  std::string output;
  for (int i = 0; i < 1000; ++i) output += "mpsd-looked /x\nmpsd-refused /x\n";
  const FoundSocket found = ReadFoundSocket(output);
  EXPECT_EQ(found.looked.size(), 32u);
  EXPECT_EQ(found.refused.size(), 32u);
}

}  // namespace
}  // namespace mpsd::ssh
