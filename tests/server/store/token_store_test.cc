// SPDX-License-Identifier: Apache-2.0
#include "server/store/token_store.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/access/token_book.h"
#include "server/store/connection.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using access::Token;
using access::TokenId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Token SomeToken(int number) {
  Token token;
  token.sha256 = base::Sha256Hex(std::to_string(number));
  token.user = "ann";
  token.role = access::Role::kAdmin;
  token.note = "laptop";
  token.create_time = absl::FromUnixMicros(1'700'000'000'000'000 + number);
  token.created_by = "root";
  return token;
}

class TokenStoreTest : public testing::Test {
 protected:
  std::vector<Token> All() {
    auto all = store_.All();
    EXPECT_TRUE(all.ok()) << all.status();
    return all.value_or(std::vector<Token>());
  }
  void Run(const std::string& sql) {
    absl::MutexLock lock(&database_->writer().mutex());
    Query(database_->writer(), sql).Run();
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  TokenStore store_{*database_};
};

TEST_F(TokenStoreTest, HasTokensAsTheyWereInTheirOrder) {
  Token first = SomeToken(1);
  Token second = SomeToken(2);
  second.role = access::Role::kViewer;
  second.expire_time = absl::FromUnixMicros(1'800'000'000'000'001);
  second.last_use = absl::FromUnixSeconds(1'700'000'040);
  second.note = std::string(limits::kTokenNoteBytes, 'n');
  second.user = std::string(limits::kUserBytes, 'u');
  EXPECT_THAT(All(), IsEmpty());
  ASSERT_TRUE(store_.Insert(first).ok());
  ASSERT_TRUE(store_.Insert(second).ok());
  EXPECT_THAT(All(), ElementsAre(first, second));
}

// The statements bind what they get: a name that is SQL changes nothing.
TEST_F(TokenStoreTest, ANameIsNeverAStatement) {
  Token token = SomeToken(1);
  token.user = "'); DROP TABLE tokens; --";
  token.note = "\" OR ''='";
  ASSERT_TRUE(store_.Insert(token).ok());
  EXPECT_THAT(All(), ElementsAre(token));
  ASSERT_TRUE(store_.Remove("' OR ''='").ok());
  ASSERT_TRUE(store_.Remove("%").ok());
  ASSERT_TRUE(store_.Remove("").ok());
  EXPECT_THAT(All(), ElementsAre(token));
}

TEST_F(TokenStoreTest, AnIdIsTakenOnce) {
  ASSERT_TRUE(store_.Insert(SomeToken(1)).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store_.Insert(SomeToken(1))));
  Token same_id = SomeToken(1);
  same_id.sha256[63] = same_id.sha256[63] == '0' ? '1' : '0';
  EXPECT_TRUE(absl::IsAlreadyExists(store_.Insert(same_id)));
  EXPECT_EQ(All().size(), 1u);
}

TEST_F(TokenStoreTest, ATokenThatIsRemovedIsGone) {
  ASSERT_TRUE(store_.Insert(SomeToken(1)).ok());
  ASSERT_TRUE(store_.Insert(SomeToken(2)).ok());
  EXPECT_TRUE(store_.Remove(TokenId(SomeToken(1).sha256)).ok());
  EXPECT_TRUE(store_.Remove(TokenId(SomeToken(1).sha256)).ok());
  EXPECT_THAT(All(), ElementsAre(SomeToken(2)));
}

TEST_F(TokenStoreTest, NotesUsesAndLeavesOutWhatIsGone) {
  ASSERT_TRUE(store_.Insert(SomeToken(1)).ok());
  ASSERT_TRUE(store_.Insert(SomeToken(2)).ok());
  const absl::Time use = absl::FromUnixSeconds(1'750'000'020);
  const std::vector<std::pair<std::string, absl::Time>> uses = {
      {TokenId(SomeToken(2).sha256), use}, {"000000000000", use}};
  ASSERT_TRUE(store_.SetLastUses(uses).ok());
  EXPECT_EQ(All()[0].last_use, std::nullopt);
  EXPECT_EQ(All()[1].last_use, use);
}

TEST_F(TokenStoreTest, ARoleOfANewerMpsdIsNotGuessed) {
  ASSERT_TRUE(store_.Insert(SomeToken(1)).ok());
  Run("UPDATE tokens SET role = 9");
  const absl::Status read = store_.All().status();
  EXPECT_TRUE(absl::IsDataLoss(read));
  EXPECT_THAT(std::string(read.message()), HasSubstr("the role 9"));
  EXPECT_THAT(std::string(read.message()),
              HasSubstr(TokenId(SomeToken(1).sha256)));
}

TEST_F(TokenStoreTest, TheTableRefusesWhatIsNoToken) {
  ASSERT_TRUE(store_.Insert(SomeToken(1)).ok());
  EXPECT_THROW(Run("UPDATE tokens SET role = 0"), SQLite::Exception);
  EXPECT_THROW(Run("UPDATE tokens SET user = ''"), SQLite::Exception);
  EXPECT_THROW(Run("UPDATE tokens SET sha256 = 'mpsd_x'"), SQLite::Exception);
}

TEST_F(TokenStoreTest, NoFileHoldsASecret) {
  auto book = access::TokenBook::Open(store_, base::Clock::Real(),
                                      access::TokenBook::SystemOptions());
  ASSERT_TRUE(book.ok()) << book.status();
  const auto made =
      (*book)->Create({"ann", access::Role::kUser, "note-canary", {}, "root"});
  ASSERT_TRUE(made.ok()) << made.status();
  std::string bytes;
  for (const auto& file :
       std::filesystem::directory_iterator(scratch_.path())) {
    bytes += *base::ReadFile(file.path());
  }
  EXPECT_THAT(bytes, HasSubstr("note-canary"));
  EXPECT_THAT(bytes, Not(HasSubstr(made->secret)));
  EXPECT_THAT(bytes, Not(HasSubstr(made->secret.substr(5, 20))));
}

}  // namespace
}  // namespace mpsd::store
