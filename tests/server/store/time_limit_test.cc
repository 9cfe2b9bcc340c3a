// SPDX-License-Identifier: Apache-2.0
#include "server/store/time_limit.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace {

constexpr char kForever[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT count(*) FROM n";
constexpr char kShort[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT "
    "200000) SELECT count(*) FROM n";

absl::Status Execute(Connection& c, const char* sql)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  return CatchSqlite("counting", [&] {
    Query query(c, sql);
    query.Next();
    return absl::OkStatus();
  });
}

TEST(TimeLimit, EndsWhatRunsTooLongAndNothingElse) {
  Connection c(SQLite::Database(":memory:", SQLite::OPEN_READWRITE));
  absl::MutexLock lock(&c.mutex());
  const absl::Time start = absl::Now();
  {
    const TimeLimit limit(c, absl::Milliseconds(50));
    EXPECT_TRUE(absl::IsDeadlineExceeded(Execute(c, kForever)));
    EXPECT_GE(absl::Now() - start, absl::Milliseconds(50));
    EXPECT_TRUE(absl::IsDeadlineExceeded(Execute(c, kForever)))
        << "once for all";
  }
  EXPECT_TRUE(Execute(c, kShort).ok()) << "the connection is as it was";
  const TimeLimit limit(c, absl::Minutes(1));
  EXPECT_TRUE(Execute(c, kShort).ok());
}

}  // namespace
}  // namespace mpsd::store
