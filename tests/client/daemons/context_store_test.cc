// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/context_store.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <utility>

#include "core/base/api_token.h"
#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::client {
namespace {

const std::string kToken =
    base::ApiToken(std::string(base::kApiTokenSecretBytes, 's'));

TEST(ContextName, WhatMayBeAName) {
  for (const std::string& name : std::vector<std::string>{
           "studio", "studio.local", "4", "a_b-c", std::string(64, 'a')}) {
    EXPECT_TRUE(CheckContextName(name).ok()) << name;
  }
  for (const std::string& name :
       std::vector<std::string>{"", "Studio", "..", ".hidden", "-rf", "a/b",
                                "a b", "a\n", "é", std::string(65, 'a')}) {
    EXPECT_EQ(CheckContextName(name).code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_THAT(std::string(CheckContextName("local").message()),
              HasSubstr("this machine's own daemon"));
}

TEST(ContextName, OfAnyHostIsAName) {
  EXPECT_EQ(NameForHost("Studio.local"), "studio.local");
  EXPECT_EQ(NameForHost("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(NameForHost("fe80::2"), "fe80--2");
  EXPECT_EQ(NameForHost("::1"), "1");
  for (const std::string& host : std::vector<std::string>{
           "", "::", "local", "LOCAL", "_", "a/../b", "\x1b[2J",
           std::string(300, '.'), std::string(300, 'A')}) {
    EXPECT_TRUE(CheckContextName(NameForHost(host)).ok()) << host;
  }
}

TEST(Token, WhatCanBeSent) {
  EXPECT_TRUE(CheckToken(kToken).ok());
  std::string mistyped = kToken;
  mistyped[10] = mistyped[10] == 'a' ? 'b' : 'a';
  for (const std::string& token :
       {std::string(), std::string("mpsd_"), kToken + "\n", kToken + " ",
        kToken + "\r\nx: y", kToken + std::string(1, '\0'), mistyped}) {
    const absl::Status status = CheckToken(token);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    // An error may end in a log.
    EXPECT_EQ(status.message().find(kToken.substr(5, 5)), std::string::npos);
  }
}

TEST(ContextText, EveryMemberComesBack) {
  const Context context = {"studio",    "studio:7433", true,  "PEM\nPEM\n",
                           "/run/sock", "ann",         kToken};
  const auto read = FromText("studio", ToText(context));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, context);
  const Context bare = {"x", "localhost:1", false};
  EXPECT_EQ(FromText("x", ToText(bare)).value(), bare);
}

TEST(ContextText, BrokenTextsSayWhatWasExpected) {
  const std::string good = ToText({"x", "studio:7433", true});
  ASSERT_TRUE(FromText("x", good).ok());
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, const char*>>{
           {"", "expected a JSON object"},
           {good.substr(0, good.size() / 2), "expected a JSON object"},
           {"[]", "expected a JSON object"},
           {std::string(100'000, '['), "expected a JSON object"},
           {"{}", "expected 'format', a number"},
           {R"({"format": 2})", "another release"},
           {R"({"format": 1, "server": 7})", "expected 'server', a string"},
           {R"({"format": 1, "server": "a:1"})", "expected 'tls'"},
           {R"({"format": 1, "tls": true})", "expected 'server', HOST:PORT"},
           {R"({"format": 1, "tls": true,
                "server": "a:1", "token": "mpsd_0123456789abcdef\n"})",
            "'token': the token is incomplete"}}) {
    const auto context = FromText("x", text);
    EXPECT_EQ(context.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(context.status().message()), HasSubstr(why));
    EXPECT_EQ(context.status().message().find("mpsd_0"), std::string::npos);
  }
}

class ContextStoreTest : public testing::Test {
 protected:
  static Context Studio() {
    Context context;
    context.name = "studio";
    context.server = "studio:7433";
    context.user = "ann";
    context.token = kToken;
    return context;
  }

  const fs::path root_ = FreshFolder("contexts");
  const fs::path folder_ = root_ / "mpsd/contexts";
  ContextStore store() const { return ContextStore(folder_); }
};

TEST_F(ContextStoreTest, ATokenLiesInAFileThatIsPrivate) {
  ASSERT_TRUE(store().Save(Studio()).ok());
  EXPECT_THAT(*base::ReadFile(folder_ / "studio.json"), HasSubstr(kToken));
  EXPECT_EQ(fs::status(folder_ / "studio.json").permissions(), fs::perms(0600));
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms(0700));
  ASSERT_TRUE(store().Remove("studio").ok());
}

TEST_F(ContextStoreTest, ABrokenNameOfTheCurrentOne) {
  ASSERT_TRUE(store().Save(Studio()).ok());
  ASSERT_TRUE(store().Use("studio").ok());
  std::ofstream(folder_ / "current") << "../../etc/passwd\n";
  EXPECT_THAT(std::string(store().Current().status().message()),
              HasSubstr((folder_ / "current").string()));
  ASSERT_TRUE(store().Use("studio").ok());
  EXPECT_EQ(store().Current().value(), "studio");
}

TEST_F(ContextStoreTest, LinksAreNotFollowed) {
  ASSERT_TRUE(store().Save(Studio()).ok());
  fs::rename(folder_ / "studio.json", root_ / "elsewhere.json");
  fs::create_symlink(root_ / "elsewhere.json", folder_ / "studio.json");
  EXPECT_EQ(store().Find("studio").status().code(),
            absl::StatusCode::kFailedPrecondition);
  // Only the link goes.
  ASSERT_TRUE(store().Remove("studio").ok());
  EXPECT_TRUE(fs::exists(root_ / "elsewhere.json"));
}

TEST_F(ContextStoreTest, NamesThatArePathsReachNothing) {
  std::ofstream(root_ / "x.json") << ToText(Studio());
  ASSERT_TRUE(store().Save(Studio()).ok());
  for (const char* name : {"../../x", "/etc/x", "", ".", "..", "a/b"}) {
    EXPECT_FALSE(store().Find(name).ok()) << name;
    EXPECT_FALSE(store().Remove(name).ok()) << name;
    EXPECT_FALSE(store().Use(name).ok()) << name;
  }
  EXPECT_TRUE(fs::exists(root_ / "x.json"));
}

TEST_F(ContextStoreTest, StrangersFilesAreNoContexts) {
  ASSERT_TRUE(store().Save(Studio()).ok());
  std::ofstream(folder_ / "README") << "x";
  std::ofstream(folder_ / ".studio.json.1.1.tmp") << "x";
  std::ofstream(folder_ / "Upper.json") << "x";
  EXPECT_THAT(store().Names().value(), ElementsAre("studio"));
}

TEST_F(ContextStoreTest, ManyLoginsAtOnce) {
  std::vector<std::thread> logins;
  for (int i = 0; i < 8; ++i) {
    logins.emplace_back([&, i] {
      const ContextStore own(folder_);
      Context context = Studio();
      context.name = i % 2 == 0 ? "studio" : "attic";
      context.user = std::string(1000 + i, 'u');
      for (int round = 0; round < 10; ++round) {
        EXPECT_TRUE(own.Save(context).ok());
        EXPECT_TRUE(own.Use(context.name).ok());
        EXPECT_TRUE(own.Find("studio").ok() || i % 2 == 1);
        EXPECT_TRUE(own.Current().ok());
      }
    });
  }
  for (std::thread& login : logins) login.join();
  EXPECT_THAT(store().Names().value(), ElementsAre("attic", "studio"));
  // No temporary file is left.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);
}

TEST(ContextFolder, FollowsTheEnvironment) {
#ifndef __APPLE__
  setenv("XDG_CONFIG_HOME", "/srv/config", 1);
  EXPECT_EQ(ContextStore::DefaultFolder(), "/srv/config/mpsd/contexts");
  // A relative one counts as none, by the XDG specification.
  setenv("XDG_CONFIG_HOME", "config", 1);
  setenv("HOME", "/srv/ann", 1);
  EXPECT_EQ(ContextStore::DefaultFolder(), "/srv/ann/.config/mpsd/contexts");
  unsetenv("XDG_CONFIG_HOME");
#endif
  unsetenv("HOME");
  EXPECT_TRUE(ContextStore::DefaultFolder().is_absolute());
  setenv("HOME", "/srv/ann", 1);
}

int ModeOf(const fs::path& path) {
  struct stat info;
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class PrivateFolderTest : public testing::Test {
 protected:
  std::unique_ptr<PrivateFolder> Make() {
    auto folder = PrivateFolder::Make(path_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  void ExpectRefused(const absl::Status& status, const char* why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_.string()));
  }

  const fs::path root_ = FreshFolder("private");
  const fs::path path_ = root_ / "a/secrets";
};

TEST_F(PrivateFolderTest, FilesAreTheOwnersAloneWhateverTheMask) {
  const mode_t mask = umask(0);
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "secret").ok());
  umask(mask);
  EXPECT_EQ(ModeOf(path_), 0700);
  EXPECT_EQ(ModeOf(path_ / "x"), 0600);
  EXPECT_EQ(folder->Read("x", 100).value(), "secret");
}

TEST_F(PrivateFolderTest, WriteReplacesAndRemoveForgets) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  ASSERT_TRUE(folder->Write("x", "two").ok());
  EXPECT_EQ(folder->Read("x", 100).value(), "two");
  ASSERT_TRUE(folder->Write("b", "").ok());
  EXPECT_THAT(folder->Names().value(), ElementsAre("b", "x"));
  EXPECT_TRUE(folder->Remove("x").ok());
  EXPECT_TRUE(folder->Remove("x").ok());
  EXPECT_TRUE(absl::IsNotFound(folder->Read("x", 100).status()));
}

TEST_F(PrivateFolderTest, RemoveTakesWhatAKilledWriteLeft) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  std::ofstream(path_ / ".x.77.1.tmp") << "secret";
  std::ofstream(path_ / ".xy.77.1.tmp") << "another's";
  EXPECT_THAT(folder->Names().value(), ElementsAre("x"));
  EXPECT_TRUE(folder->Remove("x").ok());
  EXPECT_FALSE(fs::exists(path_ / ".x.77.1.tmp"));
  EXPECT_TRUE(fs::exists(path_ / ".xy.77.1.tmp"));
}

TEST_F(PrivateFolderTest, NeitherALinkNorAFileForTheFolder) {
  EXPECT_TRUE(absl::IsNotFound(PrivateFolder::Open(path_).status()));
  fs::create_directories(root_ / "elsewhere");
  fs::create_directories(path_.parent_path());
  fs::create_directory_symlink(root_ / "elsewhere", path_);
  ExpectRefused(PrivateFolder::Open(path_).status(), "not a link");
  ExpectRefused(PrivateFolder::Make(path_).status(), "not a link");
  fs::remove(path_);
  std::ofstream(path_) << "x";
  ExpectRefused(PrivateFolder::Make(path_).status(), "expected a folder");
}

TEST_F(PrivateFolderTest, AFolderOrAFileThatOthersMayUse) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  fs::permissions(path_ / "x", fs::perms(0640));
  ExpectRefused(folder->Read("x", 100).status(), "chmod 600");
  fs::permissions(path_, fs::perms(0750));
  ExpectRefused(PrivateFolder::Open(path_).status(), "chmod 700");
}

TEST_F(PrivateFolderTest, AnotherAccountsFile) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  if (chown((path_ / "x").c_str(), 12345, 12345) != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  ExpectRefused(folder->Read("x", 100).status(), "another account (uid 12345)");
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  ExpectRefused(PrivateFolder::Open(path_).status(), "another account");
}

TEST_F(PrivateFolderTest, NoLinksPipesOrFoldersForFiles) {
  const auto folder = Make();
  std::ofstream(root_ / "target") << "other";
  fs::create_symlink(root_ / "target", path_ / "link");
  ExpectRefused(folder->Read("link", 100).status(), "not a link");
  ASSERT_EQ(mkfifo((path_ / "pipe").c_str(), 0600), 0);
  ExpectRefused(folder->Read("pipe", 100).status(), "not a regular file");
  fs::create_directory(path_ / "folder");
  ExpectRefused(folder->Read("folder", 100).status(), "not a regular file");
  // A write takes the link's place and leaves what it led to alone.
  ASSERT_TRUE(folder->Write("link", "mine").ok());
  EXPECT_FALSE(fs::is_symlink(path_ / "link"));
  std::string text;
  std::ifstream(root_ / "target") >> text;
  EXPECT_EQ(text, "other");
}

TEST_F(PrivateFolderTest, LongFilesAreNotRead) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", std::string(101, 'a')).ok());
  EXPECT_EQ(folder->Read("x", 100).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(folder->Read("x", 101).ok());
}

TEST_F(PrivateFolderTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit tiny = {16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const absl::Status status = folder->Write("x", std::string(1000, 'a'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr((path_ / "x").string()));
  EXPECT_EQ(folder->Read("x", 100).value(), "one");
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 1);
}

TEST_F(PrivateFolderTest, AFileIsWholeAtAnyMoment) {
  const auto folder = Make();
  const std::string a(5000, 'a'), b(9000, 'b');
  ASSERT_TRUE(folder->Write("x", a).ok());
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(folder->Write("x", i % 2 == 0 ? b : a).ok());
    }
  });
  for (int i = 0; i < 200; ++i) {
    const std::string text = folder->Read("x", 10'000).value();
    EXPECT_TRUE(text == a || text == b) << text.size();
  }
  writer.join();
}

}  // namespace
}  // namespace mpsd::client
