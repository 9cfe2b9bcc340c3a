// SPDX-License-Identifier: Apache-2.0
#include "server/access/token_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "absl/synchronization/notification.h"
#include "core/base/api_token.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/test_store.h"

namespace mpsd::access {
namespace {

constexpr uid_t kUnusedUid = 3'999'999'999;  // no account has this number

TEST(AccountNameTest, IsTheAccountsOrItsNumber) {
  EXPECT_EQ(*AccountName(0), "root");
  EXPECT_EQ(*AccountName(kUnusedUid), "uid-3999999999");
  EXPECT_EQ(UserOf(7, "ada"), "ada");
  // A name that no user may have, and another account's.
  for (const char* name :
       {"", "Ada Lovelace", "DOMAIN\\ada", "a\nb", "uid-8"}) {
    EXPECT_EQ(UserOf(7, name), "uid-7") << name;
  }
}

class TokenBookTest : public testing::Test {
 protected:
  TokenBookTest() { Reopen(); }

  // As a restart of mpsd does.
  void Reopen() {
    book_ = nullptr;
    TokenBook::Options options = TokenBook::SystemOptions();
    options.end_streams = [this](const std::string& credential) {
      absl::MutexLock lock(&mutex_);
      ended_.push_back(credential);
      // A stream that begins meanwhile asks whether its caller is known still.
      EXPECT_FALSE(book_->Find(secret_).has_value());
      return 3;
    };
    options.on_change = [this] {
      absl::MutexLock lock(&mutex_);
      ++changes_;
    };
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    auto book = TokenBook::Open(store_, clock_, std::move(options));
    ASSERT_TRUE(book.ok()) << book.status();
    book_ = *std::move(book);
  }

  NewToken Create(std::optional<absl::Duration> life = std::nullopt,
                  Role role = Role::kUser) {
    TokenOrder order{"ann", role, "laptop", std::nullopt, "root"};
    if (life.has_value()) order.expire_time = clock_.Now() + *life;
    absl::StatusOr<NewToken> made = book_->Create(order);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or(NewToken());
  }
  static std::string IdOf(const NewToken& made) {
    return TokenId(made.token.sha256);
  }
  bool Knows(const std::string& secret) {
    return book_->Find(secret).has_value();
  }
  std::vector<std::string> TakeEnded() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(ended_, {});
  }

  fakes::FakeClock clock_;
  std::vector<Token> Rows() { return store_.All().value(); }

  fakes::TestStore db_;
  Tokens store_{db_.database()};
  absl::Mutex mutex_;
  std::vector<std::string> ended_ ABSL_GUARDED_BY(mutex_);
  int changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string log_;
  std::string secret_;  // of the token whose streams end
  std::unique_ptr<TokenBook> book_;
};

TEST_F(TokenBookTest, ATokenIsItsUserInItsRole) {
  const NewToken made = Create(absl::Hours(1), Role::kAdmin);
  EXPECT_TRUE(base::IsApiToken(made.secret));
  const std::optional<Caller> caller = book_->Find(made.secret);
  ASSERT_TRUE(caller.has_value());
  EXPECT_EQ(*caller, (Caller{"ann", Role::kAdmin, Way::kToken,
                             "token " + IdOf(made), ""}));
  EXPECT_EQ(CredentialTokenId(caller->credential), IdOf(made));
  EXPECT_EQ(CredentialTokenId("uid 501"), std::nullopt);
  // The store has the digest and nothing of the secret.
  const std::vector<Token> rows = Rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].sha256, base::Sha256Hex(made.secret));
  EXPECT_EQ(rows[0], made.token);
  EXPECT_EQ(rows[0].user, "ann");
  EXPECT_EQ(rows[0].note, "laptop");
  EXPECT_EQ(rows[0].created_by, "root");
}

TEST_F(TokenBookTest, WhatIsNotTheTokenItselfIsNoCaller) {
  const std::string secret = Create().secret;
  std::string upper = secret;
  for (char& c : upper) c = static_cast<char>(toupper(c));
  for (const std::string& other :
       {std::string(), upper, secret + "\n", secret + " ", " " + secret,
        secret.substr(1), secret + '\0', "Bearer " + secret,
        base::Sha256Hex(secret), TokenId(base::Sha256Hex(secret)),
        std::string(1 << 20, 'a')}) {
    EXPECT_FALSE(Knows(other)) << other.substr(0, 80);
  }
  EXPECT_TRUE(Knows(secret));
}

// A digest whose first digits are another token's is not that token's.
TEST_F(TokenBookTest, TheWholeDigestCounts) {
  Token forged;
  const std::string secret = base::ApiToken(std::string(32, 'k'));
  forged.sha256 = base::Sha256Hex(secret);
  forged.sha256[63] = forged.sha256[63] == '0' ? '1' : '0';
  forged.user = "eve";
  ASSERT_TRUE(store_.Insert(forged).ok());
  Reopen();
  EXPECT_FALSE(Knows(secret));
}

TEST_F(TokenBookTest, TokensOutliveARestart) {
  const NewToken made = Create(absl::Hours(1));
  Reopen();
  EXPECT_TRUE(Knows(made.secret));
  EXPECT_EQ(book_->Get(IdOf(made))->user, "ann");
  clock_.Advance(absl::Hours(1));
  Reopen();
  EXPECT_FALSE(Knows(made.secret));
}

TEST_F(TokenBookTest, ATokenEndsAtItsTimeAndStaysInTheList) {
  const NewToken made = Create(absl::Hours(1)), endless = Create();
  clock_.Advance(absl::Hours(1) - absl::Seconds(1));
  EXPECT_TRUE(Knows(made.secret));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Knows(made.secret));
  EXPECT_EQ(book_->List().size(), 2u);
  clock_.Advance(absl::Hours(24 * 365 * 100));
  EXPECT_TRUE(Knows(endless.secret));
}

TEST_F(TokenBookTest, AClockThatIsSetBackProlongsNothing) {
  const NewToken made = Create(absl::Hours(1));
  clock_.SetBack(absl::Hours(24));
  clock_.Advance(absl::Minutes(59));
  EXPECT_TRUE(Knows(made.secret));
  clock_.Advance(absl::Minutes(1));
  EXPECT_FALSE(Knows(made.secret)) << "an hour has passed";
  clock_.SetBack(absl::Hours(24));
  EXPECT_FALSE(Knows(made.secret));
}

TEST_F(TokenBookTest, AClockThatRanAheadAndIsPutRightTakesNothing) {
  const NewToken made = Create(absl::Hours(1));
  clock_.SetBack(-absl::Hours(24));
  EXPECT_FALSE(Knows(made.secret));
  clock_.SetBack(absl::Hours(24));
  EXPECT_TRUE(Knows(made.secret));
}

TEST_F(TokenBookTest, ARevokedTokenEndsAtOnceWithItsStreams) {
  const NewToken made = Create();
  const NewToken other = Create();
  secret_ = made.secret;
  absl::StatusOr<int> ended = book_->Revoke(IdOf(made));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(*ended, 3);
  EXPECT_THAT(TakeEnded(), ElementsAre("token " + IdOf(made)));
  EXPECT_FALSE(Knows(made.secret));
  EXPECT_TRUE(Knows(other.secret));
  EXPECT_EQ(Rows().size(), 1u);
  Reopen();
  EXPECT_FALSE(Knows(made.secret));
  EXPECT_TRUE(absl::IsNotFound(book_->Revoke(IdOf(made)).status()));
}

TEST_F(TokenBookTest, StreamsEndWhenTheirTokenExpires) {
  const NewToken made = Create(absl::Seconds(90));
  const NewToken longer = Create(absl::Hours(1));
  secret_ = made.secret;
  // The book need not be tended again for a minute.
  EXPECT_EQ(book_->Tend(), clock_.Now() + absl::Minutes(1));
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(book_->Tend(), clock_.Now() + absl::Seconds(30));
  EXPECT_THAT(TakeEnded(), IsEmpty());
  clock_.Advance(absl::Seconds(30));
  book_->Tend();
  EXPECT_THAT(TakeEnded(), ElementsAre("token " + IdOf(made)));
  clock_.Advance(absl::Minutes(1));
  book_->Tend();
  EXPECT_THAT(TakeEnded(), IsEmpty()) << "once is enough";
  // Though the clock was set back.
  const NewToken other = Create(absl::Seconds(30));
  secret_ = other.secret;
  clock_.SetBack(absl::Hours(24));
  EXPECT_EQ(book_->Tend(), clock_.Now() + absl::Seconds(30));
  clock_.Advance(absl::Seconds(30));
  book_->Tend();
  EXPECT_THAT(TakeEnded(), ElementsAre("token " + IdOf(other)));
}

// The caller of Tend sleeps as long as Tend said, and has to be woken.
TEST_F(TokenBookTest, ANewTokenMayExpireBeforeTendIsCalledNext) {
  EXPECT_EQ(book_->Tend(), clock_.Now() + absl::Minutes(1));
  Create(absl::Seconds(5));
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(changes_, 1);
  }
  EXPECT_EQ(book_->Tend(), clock_.Now() + absl::Seconds(5));
}

TEST_F(TokenBookTest, TheLastUseIsKnownToTheMinuteAndWrittenByTend) {
  const NewToken made = Create();
  EXPECT_EQ(book_->Get(IdOf(made))->last_use, std::nullopt);
  clock_.Advance(absl::Seconds(95));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Knows(made.secret));
  const absl::Time minute = absl::FromUnixSeconds(1767225660);
  EXPECT_EQ(book_->Get(IdOf(made))->last_use, minute);
  int writes = 0;
  db_.on_commit() = [&] { ++writes; };
  book_->Tend();
  EXPECT_EQ(Rows()[0].last_use, minute);
  EXPECT_TRUE(Knows(made.secret));
  book_->Tend();
  EXPECT_EQ(writes, 1) << "the minute is the same";
  db_.on_commit() = nullptr;
  clock_.Advance(absl::Minutes(1));
  EXPECT_TRUE(Knows(made.secret));
  Reopen();
  EXPECT_EQ(book_->Get(IdOf(made))->last_use, minute + absl::Minutes(1))
      << "an end of mpsd writes it";
  clock_.SetBack(absl::Hours(5));
  EXPECT_TRUE(Knows(made.secret));
  EXPECT_EQ(book_->Get(IdOf(made))->last_use,
            minute + absl::Minutes(1) - absl::Hours(5));
}

TEST_F(TokenBookTest, AUseThatIsNotWrittenIsWrittenLater) {
  const NewToken made = Create();
  EXPECT_TRUE(Knows(made.secret));
  db_.FillDisk();
  book_->Tend();
  EXPECT_THAT(log_, HasSubstr("disk is full"));
  EXPECT_THAT(log_, Not(HasSubstr(made.secret)));
  db_.FreeDisk();
  book_->Tend();
  EXPECT_TRUE(Rows()[0].last_use.has_value());
}

TEST_F(TokenBookTest, ATokenMadeOnAHangingDiskBlocksNoOtherCall) {
  const NewToken made = Create();
  absl::Notification hangs, go;
  db_.on_commit() = [&] {
    hangs.Notify();
    go.WaitForNotification();
  };
  std::thread creator([&] { Create(); });
  hangs.WaitForNotification();
  EXPECT_TRUE(Knows(made.secret));
  EXPECT_EQ(book_->List().size(), 1u);
  go.Notify();
  creator.join();
  db_.on_commit() = nullptr;
  EXPECT_EQ(book_->List().size(), 2u);
}

TEST_F(TokenBookTest, ARevokedTokenIsRefusedWhileTheDiskHangs) {
  const NewToken made = Create();
  absl::Notification hangs, go;
  db_.on_commit() = [&] {
    hangs.Notify();
    go.WaitForNotification();
  };
  std::thread revoker([&] { EXPECT_TRUE(book_->Revoke(IdOf(made)).ok()); });
  hangs.WaitForNotification();
  EXPECT_FALSE(Knows(made.secret));
  EXPECT_THAT(TakeEnded(), ElementsAre("token " + IdOf(made)));
  go.Notify();
  revoker.join();
  db_.on_commit() = nullptr;
  EXPECT_THAT(book_->List(), IsEmpty());
}

TEST_F(TokenBookTest, WhatIsNotStoredIsNoTokenAndNoBook) {
  db_.FillDisk();
  const auto made = book_->Create({"ann", Role::kUser, "", std::nullopt, ""});
  EXPECT_TRUE(absl::IsResourceExhausted(made.status()));
  EXPECT_THAT(book_->List(), IsEmpty());
  db_.FreeDisk();
  Create();
  db_.Execute("UPDATE tokens SET role = 77");
  EXPECT_TRUE(absl::IsDataLoss(
      TokenBook::Open(store_, clock_, TokenBook::SystemOptions()).status()));
}

TEST_F(TokenBookTest, ATokenThatCannotBeRemovedIsRefusedAndCanBeRevokedAgain) {
  const NewToken made = Create();
  db_.FillDisk();
  const absl::Status failed = book_->Revoke(IdOf(made)).status();
  EXPECT_THAT(std::string(failed.message()), HasSubstr("disk is full"));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("revoke it again"));
  EXPECT_FALSE(Knows(made.secret));
  db_.FreeDisk();
  EXPECT_TRUE(book_->Revoke(IdOf(made)).ok());
  EXPECT_THAT(Rows(), IsEmpty());
}

TEST_F(TokenBookTest, AThousandTokensAndNoMore) {
  std::set<std::string> secrets;
  for (size_t i = 0; i < limits::kTokens; ++i) secrets.insert(Create().secret);
  EXPECT_EQ(secrets.size(), limits::kTokens);
  const auto more = book_->Create({"ann", Role::kUser, "", std::nullopt, ""});
  EXPECT_TRUE(absl::IsResourceExhausted(more.status()));
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("1000 tokens"));
  for (const std::string& secret : secrets) EXPECT_TRUE(Knows(secret));
  const std::vector<Token> list = book_->List();
  EXPECT_EQ(list.size(), limits::kTokens);
  ASSERT_TRUE(book_->Revoke(TokenId(list.back().sha256)).ok());
  EXPECT_TRUE(book_->Create({"ann", Role::kUser, "", std::nullopt, ""}).ok());
}

TEST_F(TokenBookTest, ManyMakeTokensAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> known = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        const NewToken made = Create();
        known += Knows(made.secret) ? 1 : 0;
        if (j % 2 == 0) {
          EXPECT_TRUE(book_->Revoke(IdOf(made)).ok());
        }
        book_->List();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(known, 400);
  EXPECT_EQ(book_->List().size(), 200u);
  EXPECT_EQ(Rows().size(), 200u);
}

TEST_F(TokenBookTest, AnIdThatIsTakenIsNotMadeTwice) {
  int drawn = 0;
  TokenBook::Options options;
  options.random = [&](size_t bytes) -> absl::StatusOr<std::string> {
    // Twice the same, and only then other bytes.
    return std::string(bytes, ++drawn <= 2 ? 'a' : static_cast<char>(drawn));
  };
  auto book = TokenBook::Open(store_, clock_, std::move(options));
  ASSERT_TRUE(book.ok());
  const auto first = (*book)->Create({"ann", Role::kUser, "", {}, ""});
  const auto second = (*book)->Create({"bob", Role::kUser, "", {}, ""});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(drawn, 3);
  EXPECT_EQ((*book)->Find(first->secret)->user, "ann");
  EXPECT_EQ((*book)->Find(second->secret)->user, "bob");
}

TEST_F(TokenBookTest, WithoutRandomBytesThereIsNoToken) {
  TokenBook::Options options;
  options.random = [](size_t bytes) -> absl::StatusOr<std::string> {
    return std::string(bytes, 'a');
  };
  auto same = TokenBook::Open(store_, clock_, options);
  ASSERT_TRUE((*same)->Create({"ann", Role::kUser, "", {}, ""}).ok());
  EXPECT_TRUE(absl::IsInternal(
      (*same)->Create({"ann", Role::kUser, "", {}, ""}).status()));
  options.random = [](size_t) -> absl::StatusOr<std::string> {
    return absl::InternalError("none");
  };
  auto none = TokenBook::Open(store_, clock_, options);
  EXPECT_TRUE(absl::IsInternal(
      (*none)->Create({"ann", Role::kUser, "", {}, ""}).status()));
}

}  // namespace
}  // namespace mpsd::access
