// SPDX-License-Identifier: Apache-2.0
#include "server/store/token_store.h"

#include <functional>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "server/access/token_book.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::access {
namespace {

Token SomeToken(int number) {
  Token token;
  token.sha256 = base::Sha256Hex(std::to_string(number));
  token.user = "ann";
  token.role = Role::kAdmin;
  token.note = "laptop";
  token.create_time = absl::FromUnixMicros(1'700'000'000'000'000 + number);
  token.created_by = "root";
  return token;
}

class TokenStoreTest : public jobs::StoreFixture {
 protected:
  std::vector<Token> All() {
    auto all = store_.All();
    EXPECT_TRUE(all.ok()) << all.status();
    return all.value_or(std::vector<Token>());
  }

  Tokens store_{*database_};
};

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

TEST_F(TokenStoreTest, ARoleOfANewerMpsdIsNotGuessed) {
  ASSERT_TRUE(store_.Insert(SomeToken(1)).ok());
  Execute("UPDATE tokens SET role = 9");
  EXPECT_THAT(store_.All(),
              Fails(absl::StatusCode::kDataLoss,
                    AllOf(HasSubstr("the role 9"),
                          HasSubstr(TokenId(SomeToken(1).sha256)))));
}

TEST_F(TokenStoreTest, TheTableRefusesWhatIsNoToken) {
  ASSERT_TRUE(store_.Insert(SomeToken(1)).ok());
  for (const char* change : {"role = 0", "user = ''", "sha256 = 'mpsd_x'"}) {
    EXPECT_THROW(Execute(std::string("UPDATE tokens SET ") + change),
                 SQLite::Exception);
  }
}

TEST_F(TokenStoreTest, NoFileHoldsASecret) {
  auto book = Ok(
      TokenBook::Open(store_, base::Clock::Real(), TokenBook::SystemOptions()));
  const auto made =
      Ok(book->Create({"ann", Role::kUser, "note-canary", {}, "root"}));
  std::string bytes;
  for (const auto& file :
       std::filesystem::directory_iterator(scratch_.path())) {
    bytes += *base::ReadFile(file.path());
  }
  EXPECT_THAT(bytes, HasSubstr("note-canary"));
  EXPECT_THAT(bytes, Not(HasSubstr(made.secret)));
  EXPECT_THAT(bytes, Not(HasSubstr(made.secret.substr(5, 20))));
}

class AuditStoreTest : public jobs::StoreFixture {
 protected:
  // An entry of `user` at `second`.
  static AuditEntry Entry(const std::string& user, int second) {
    AuditEntry entry;
    entry.time = absl::FromUnixSeconds(second);
    entry.request.caller = {user, Role::kUser, Way::kToken,
                            "token 0a1b2c3d4e5f", "192.168.1.7"};
    entry.request.method = "JobService.Cancel";
    entry.request.job_id = "01J00000000000000000000001";
    entry.request.detail = "now";
    return entry;
  }
  int64_t Append(const AuditEntry& entry) {
    const auto number = store_.Append(entry);
    EXPECT_TRUE(number.ok()) << number.status();
    return number.value_or(0);
  }
  // The numbers of the entries that the filter finds.
  std::vector<int64_t> Find(const AuditFilter& filter) {
    std::vector<int64_t> numbers;
    for (const AuditEntry& entry : List(filter)) {
      numbers.push_back(entry.number);
    }
    return numbers;
  }
  std::vector<int64_t> FindWith(const std::function<void(AuditFilter&)>& set) {
    AuditFilter filter;
    set(filter);
    return Find(filter);
  }
  std::vector<AuditEntry> List(const AuditFilter& filter) {
    auto listed = store_.List(filter);
    EXPECT_TRUE(listed.ok()) << listed.status();
    return listed.ok() ? *listed : std::vector<AuditEntry>();
  }

  AuditStore store_{*database_};
};

// Way 3, a client certificate, is of a former mpsd.
TEST_F(AuditStoreTest, ReadsAWayThatIsNoMore) {
  AuditEntry written = Entry("ada", 77);
  written.request.caller.way = static_cast<Way>(3);
  written.request.caller.credential = "certificate 0A1B";
  Append(written);
  const std::vector<AuditEntry> listed = List({});
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(listed[0].request.caller, written.request.caller);
}

TEST_F(AuditStoreTest, KeepsEveryFieldAcrossARestart) {
  const AuditEntry written = Entry("ada", 77);
  const int64_t number = Append(written);
  EXPECT_TRUE(
      store_.SetResult(number, absl::NotFoundError("no such job"), "").ok());
  file_.reset();
  std::unique_ptr<store::Database> again = store::OpenOrDie(scratch_.file());
  auto listed = Ok(AuditStore(*again).List({}));
  ASSERT_THAT(listed, SizeIs(1));
  const AuditEntry& read = listed.front();
  EXPECT_EQ(read.number, number);
  EXPECT_EQ(read.time, written.time);
  EXPECT_EQ(read.request.caller, written.request.caller);
  EXPECT_EQ(read.request.method, written.request.method);
  EXPECT_EQ(read.request.job_id, written.request.job_id);
  EXPECT_EQ(read.request.detail, "now");
  EXPECT_EQ(read.result, absl::StatusCode::kNotFound);
  EXPECT_EQ(read.message, "no such job");
}

TEST_F(AuditStoreTest, FindsByEachCondition) {
  const int64_t ada = Append(Entry("ada", 10));
  AuditEntry entry = Entry("bob", 20);
  entry.request.method = "AccessService.CreateToken";
  entry.request.job_id.clear();
  const int64_t bob = Append(entry);
  entry = Entry("", 30);
  entry.result = absl::StatusCode::kUnauthenticated;
  const int64_t nameless = Append(entry);

  EXPECT_THAT(Find({}), ElementsAre(nameless, bob, ada));
  EXPECT_THAT(FindWith([](auto& f) { f.user = "ada"; }), ElementsAre(ada));
  AuditFilter filter;
  filter.job_id = "01J00000000000000000000001";
  EXPECT_THAT(Find(filter), ElementsAre(nameless, ada));
  filter.method = "Cancel";
  EXPECT_THAT(Find(filter), ElementsAre(nameless, ada));
  filter.user = "ada";
  EXPECT_THAT(Find(filter), ElementsAre(ada));
  for (const char* method : {"CreateToken", "AccessService.CreateToken"}) {
    EXPECT_THAT(FindWith([&](auto& f) { f.method = method; }),
                ElementsAre(bob));
  }
  EXPECT_THAT(FindWith([](auto& f) { f.method = "JobService.CreateToken"; }),
              IsEmpty());
  EXPECT_THAT(FindWith([](auto& f) { f.refused = true; }),
              ElementsAre(nameless));
  filter = {};
  filter.since = absl::FromUnixSeconds(20);
  EXPECT_THAT(Find(filter), ElementsAre(nameless, bob));
  filter.until = absl::FromUnixSeconds(30);
  EXPECT_THAT(Find(filter), ElementsAre(bob));
  filter = {};
  filter.before = nameless;
  filter.limit = 1;
  EXPECT_THAT(Find(filter), ElementsAre(bob));
}

TEST_F(AuditStoreTest, QuotesAndLettersOfSqlAreText) {
  AuditEntry entry = Entry("ada", 1);
  entry.request.detail = "'; DROP TABLE audit; --";
  Append(entry);
  EXPECT_THAT(FindWith([](auto& f) { f.user = "' OR 1=1 --"; }), IsEmpty());
  EXPECT_EQ(List({})[0].request.detail, "'; DROP TABLE audit; --");
}

TEST_F(AuditStoreTest, ACallerWithManyEntriesEvictsNoOther) {
  Append(Entry("ada", 1));
  for (int second = 2; second <= 9; ++second) Append(Entry("eve", second));
  Append(Entry("ada", 10));
  int64_t removed = 0;
  while (true) {
    const auto some = Ok(store_.Prune(absl::InfinitePast(), 4));
    if (some == 0) break;
    removed += some;
  }
  EXPECT_EQ(removed, 6);
  EXPECT_THAT(FindWith([](auto& f) { f.user = "ada"; }), ElementsAre(10, 1));
  EXPECT_THAT(FindWith([](auto& f) { f.user = "eve"; }), ElementsAre(9, 8));
}

TEST_F(AuditStoreTest, NumbersAreNotUsedTwice) {
  Append(Entry("ada", 1));
  ASSERT_TRUE(store_.Prune(absl::InfiniteFuture(), 0).ok());
  EXPECT_EQ(Append(Entry("ada", 2)), 2);
}

}  // namespace
}  // namespace mpsd::access
