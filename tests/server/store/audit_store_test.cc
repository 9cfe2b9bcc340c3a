// SPDX-License-Identifier: Apache-2.0
#include "server/store/audit_store.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using access::AuditEntry;
using access::AuditFilter;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AuditStoreTest : public testing::Test {
 protected:
  // An entry of `user` at `second`.
  static AuditEntry Entry(const std::string& user, int second) {
    AuditEntry entry;
    entry.time = absl::FromUnixSeconds(second);
    entry.request.caller = {user, access::Role::kUser, access::Way::kToken,
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
  std::vector<AuditEntry> List(const AuditFilter& filter) {
    auto listed = store_.List(filter);
    EXPECT_TRUE(listed.ok()) << listed.status();
    return listed.ok() ? *listed : std::vector<AuditEntry>();
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  AuditStore store_{*database_};
};

// Way 3, a client certificate, is of a former mpsd.
TEST_F(AuditStoreTest, ReadsAWayThatIsNoMore) {
  AuditEntry written = Entry("ada", 77);
  written.request.caller.way = static_cast<access::Way>(3);
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
  database_.reset();
  std::unique_ptr<Database> again = OpenOrDie(scratch_.file());
  auto listed = AuditStore(*again).List({});
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_THAT(*listed, SizeIs(1));
  const AuditEntry& read = listed->front();
  EXPECT_EQ(read.number, number);
  EXPECT_EQ(read.time, written.time);
  EXPECT_EQ(read.request.caller, written.request.caller);
  EXPECT_EQ(read.request.method, written.request.method);
  EXPECT_EQ(read.request.job_id, written.request.job_id);
  EXPECT_EQ(read.request.detail, "now");
  EXPECT_EQ(read.result, absl::StatusCode::kNotFound);
  EXPECT_EQ(read.message, "no such job");
}

TEST_F(AuditStoreTest, AnEntryHasNoResultUntilItIsSet) {
  AuditEntry entry = Entry("ada", 1);
  entry.request.job_id.clear();
  const int64_t number = Append(entry);
  EXPECT_EQ(List({})[0].result, std::nullopt);
  EXPECT_TRUE(store_.SetResult(number, absl::OkStatus(), "01JMADE").ok());
  EXPECT_EQ(List({})[0].result, absl::StatusCode::kOk);
  EXPECT_EQ(List({})[0].request.job_id, "01JMADE");
  EXPECT_TRUE(store_.SetResult(number + 5, absl::OkStatus(), "").ok());
}

TEST_F(AuditStoreTest, FindsByEachCondition) {
  const int64_t ada = Append(Entry("ada", 10));
  AuditEntry entry = Entry("bob", 20);
  entry.request.method = "AccessService.CreateToken";
  entry.request.job_id.clear();
  const int64_t bob = Append(entry);
  entry = Entry("", 30);
  entry.result = absl::StatusCode::kUnauthenticated;
  const int64_t nobody = Append(entry);

  EXPECT_THAT(Find({}), ElementsAre(nobody, bob, ada));
  AuditFilter filter;
  filter.user = "ada";
  EXPECT_THAT(Find(filter), ElementsAre(ada));
  filter = {};
  filter.job_id = "01J00000000000000000000001";
  EXPECT_THAT(Find(filter), ElementsAre(nobody, ada));
  filter.method = "Cancel";
  EXPECT_THAT(Find(filter), ElementsAre(nobody, ada));
  filter.user = "ada";
  EXPECT_THAT(Find(filter), ElementsAre(ada));
  filter = {};
  filter.method = "CreateToken";
  EXPECT_THAT(Find(filter), ElementsAre(bob));
  filter.method = "AccessService.CreateToken";
  EXPECT_THAT(Find(filter), ElementsAre(bob));
  filter.method = "JobService.CreateToken";
  EXPECT_THAT(Find(filter), IsEmpty());
  filter = {};
  filter.refused = true;
  EXPECT_THAT(Find(filter), ElementsAre(nobody));
  filter = {};
  filter.since = absl::FromUnixSeconds(20);
  EXPECT_THAT(Find(filter), ElementsAre(nobody, bob));
  filter.until = absl::FromUnixSeconds(30);
  EXPECT_THAT(Find(filter), ElementsAre(bob));
  filter = {};
  filter.before = nobody;
  filter.limit = 1;
  EXPECT_THAT(Find(filter), ElementsAre(bob));
}

TEST_F(AuditStoreTest, QuotesAndLettersOfSqlAreText) {
  AuditEntry entry = Entry("ada", 1);
  entry.request.detail = "'; DROP TABLE audit; --";
  Append(entry);
  AuditFilter filter;
  filter.user = "' OR 1=1 --";
  EXPECT_THAT(Find(filter), IsEmpty());
  EXPECT_EQ(List({})[0].request.detail, "'; DROP TABLE audit; --");
}

TEST_F(AuditStoreTest, EntriesGoByAge) {
  for (int second : {1, 2, 3}) Append(Entry("ada", second));
  auto removed = store_.Prune(absl::FromUnixSeconds(3), 100);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(*removed, 2);
  EXPECT_THAT(Find({}), ElementsAre(3));
  EXPECT_EQ(*store_.Prune(absl::InfinitePast(), 100), 0);
}

TEST_F(AuditStoreTest, WhoAsksForMuchPushesOutNobodyElse) {
  Append(Entry("ada", 1));
  for (int second = 2; second <= 9; ++second) Append(Entry("eve", second));
  Append(Entry("ada", 10));
  int64_t removed = 0;
  while (true) {
    const auto some = store_.Prune(absl::InfinitePast(), 4);
    ASSERT_TRUE(some.ok()) << some.status();
    if (*some == 0) break;
    removed += *some;
  }
  EXPECT_EQ(removed, 6);
  AuditFilter filter;
  filter.user = "ada";
  EXPECT_THAT(Find(filter), ElementsAre(10, 1));
  filter.user = "eve";
  EXPECT_THAT(Find(filter), ElementsAre(9, 8));
}

TEST_F(AuditStoreTest, NumbersAreNotUsedTwice) {
  Append(Entry("ada", 1));
  ASSERT_TRUE(store_.Prune(absl::InfiniteFuture(), 0).ok());
  EXPECT_EQ(Append(Entry("ada", 2)), 2);
}

}  // namespace
}  // namespace mpsd::store
