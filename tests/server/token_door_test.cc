// SPDX-License-Identifier: Apache-2.0
#include "server/token_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "server/daemon.h"
#include "server/state_dir.h"
#include "server/store/audit_store.h"
#include "server/store/database.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TokenDoorTest : public testing::Test {
 protected:
  TokenDoorTest()
      // Not TempDir(): a socket's path must be short.
      : folder_(fs::path("/tmp") / ("mpsd-door-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "state");
    config_.state_dir = folder_ / "state";
    config_.worker = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    config_.metrics_address.clear();
    config_.log_level = "error";
    config_.skip_selftest = true;
  }
  ~TokenDoorTest() override { fs::remove_all(folder_); }

  std::unique_ptr<TokenDoor> Open() {
    auto door = OpenTokenDoor(config_, absl::Minutes(1));
    EXPECT_TRUE(door.ok()) << door.status();
    return *std::move(door);
  }
  absl::Status OpenError() {
    return OpenTokenDoor(config_, absl::ZeroDuration()).status();
  }
  static v1::CreateTokenResponse Create(TokenDoor& door,
                                        const std::string& user) {
    v1::CreateTokenRequest request;
    request.set_user(user);
    request.set_role(v1::ROLE_USER);
    v1::CreateTokenResponse response;
    const absl::Status status = door.Create(request, response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }
  static std::vector<std::string> Users(TokenDoor& door) {
    v1::ListTokensResponse response;
    EXPECT_TRUE(door.List(response).ok());
    std::vector<std::string> users;
    for (const v1::Token& token : response.tokens()) {
      users.push_back(token.user());
    }
    return users;
  }
  std::vector<access::AuditEntry> Audit() {
    auto database = store::Database::Open(config_.state_dir / "mpsd.db");
    EXPECT_TRUE(database.ok()) << database.status();
    return *store::AuditStore(**database).List({});
  }
  std::unique_ptr<Daemon> StartDaemon() {
    auto daemon = Daemon::Start(config_);
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    return *std::move(daemon);
  }

  const fs::path folder_;
  Config config_;
};

TEST_F(TokenDoorTest, TokensOfAStoppedDaemonAreTheNextDaemonsTokens) {
  const v1::CreateTokenResponse made = Create(*Open(), "ann");
  EXPECT_THAT(made.token().created_by(), testing::Not(IsEmpty()));
  const std::unique_ptr<Daemon> daemon = StartDaemon();
  const std::unique_ptr<TokenDoor> door = Open();
  EXPECT_THAT(Users(*door), ElementsAre("ann"));
  Create(*door, "bob");
  v1::RevokeTokenRequest request;
  request.set_id(made.token().id());
  v1::RevokeTokenResponse revoked;
  EXPECT_TRUE(door->Revoke(request, revoked).ok());
  EXPECT_THAT(Users(*door), ElementsAre("bob"));
  EXPECT_TRUE(absl::IsNotFound(door->Revoke(request, revoked)));
}

TEST_F(TokenDoorTest, TokensOfADaemonOutliveIt) {
  {
    const std::unique_ptr<Daemon> daemon = StartDaemon();
    Create(*Open(), "ann");
  }
  EXPECT_THAT(Users(*Open()), ElementsAre("ann"));
}

TEST_F(TokenDoorTest, BesideAStoppedDaemonTheSameIsRefusedAndTheSameNoted) {
  const std::unique_ptr<TokenDoor> door = Open();
  v1::CreateTokenRequest request;
  request.set_user("a b");
  request.set_role(v1::ROLE_USER);
  v1::CreateTokenResponse made;
  EXPECT_TRUE(absl::IsInvalidArgument(door->Create(request, made)));
  request.set_user("ann");
  EXPECT_TRUE(door->Create(request, made).ok());
  const std::vector<access::AuditEntry> audit = Audit();
  ASSERT_THAT(audit, SizeIs(2));
  EXPECT_EQ(audit[0].request.method, "AccessService.CreateToken");
  EXPECT_EQ(audit[0].request.caller.credential,
            "uid " + std::to_string(geteuid()));
  EXPECT_EQ(audit[0].request.detail, "for ann, user, for ever");
  EXPECT_EQ(audit[0].result, absl::StatusCode::kOk);
  EXPECT_EQ(audit[1].result, absl::StatusCode::kInvalidArgument);
}

TEST_F(TokenDoorTest, AFolderThatIsNotThereIsNotMade) {
  config_.state_dir = folder_ / "absent";
  const absl::Status status = OpenError();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--state-dir"));
  EXPECT_FALSE(fs::exists(config_.state_dir));
}

TEST_F(TokenDoorTest, AFolderOfAnotherAccountIsLeftToThatAccount) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives a folder away";
  ASSERT_EQ(chown(config_.state_dir.c_str(), 65534, 65534), 0);
  const absl::Status status = OpenError();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("sudo -u"));
  EXPECT_TRUE(fs::is_empty(config_.state_dir));
}

// One that starts, that ends, or that hangs before it serves.
TEST_F(TokenDoorTest, ADaemonThatDoesNotAnswerIsNamed) {
  const auto lock = StateDir::Open(config_.state_dir);
  ASSERT_TRUE(lock.ok());
  const absl::Status status = OpenError();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("(pid " + std::to_string(getpid()) + ")"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("mpsd.sock"));
}

TEST_F(TokenDoorTest, WaitsForAnotherThatMakesATokenNow) {
  auto lock = StateDir::Open(config_.state_dir);
  ASSERT_TRUE(lock.ok());
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(300));
    lock->reset();
  });
  Create(*Open(), "ann");
  other.join();
}

TEST_F(TokenDoorTest, MakersAtOnceTakeTurns) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { Create(*Open(), "ann"); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Users(*Open()), SizeIs(4));
}

// A daemon that was killed leaves its socket behind.
TEST_F(TokenDoorTest, ASocketThatNobodyServesIsNoDaemon) {
  const std::string path = config_.SocketPath().string();
  ASSERT_EQ(mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
  EXPECT_THAT(Users(*Open()), IsEmpty());
}

TEST_F(TokenDoorTest, APathThatIsTooLongForASocketHasADatabase) {
  config_.state_dir = folder_ / std::string(120, 'x');
  fs::create_directory(config_.state_dir);
  Create(*Open(), "ann");
  EXPECT_THAT(Users(*Open()), ElementsAre("ann"));
}

TEST_F(TokenDoorTest, WhatIsNoDatabaseStaysAsItIs) {
  std::ofstream(config_.state_dir / "mpsd.db") << std::string(8192, 'x');
  EXPECT_TRUE(absl::IsDataLoss(OpenError()));
  EXPECT_EQ(fs::file_size(config_.state_dir / "mpsd.db"), 8192u);
}

}  // namespace
}  // namespace mpsd
