// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_MIGRATE_H_
#define MPSD_SERVER_STORE_MIGRATE_H_

#include <cstdint>
#include <string>

#include "SQLiteCpp/Database.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mpsd::store {

// mpsd's PRAGMA application_id: the bytes of "mpsd".
inline constexpr int32_t kApplicationId = 0x6d707364;

struct Migration {
  const char* name;  // "0001_initial"
  const char* sql;
};

// migrations/*.sql in order. The schema version is their number; PRAGMA
// user_version tells how many of them a database has seen.
absl::Span<const Migration> AllMigrations();

// Brings the database to the newest version, each missing migration in one
// transaction, and returns that version. A migration that fails leaves the
// database at the version before it. FailedPrecondition, the file untouched,
// when
//   - it was written by a newer mpsd,
//   - it is some other program's.
absl::StatusOr<int64_t> Migrate(SQLite::Database& database,
                                absl::Span<const Migration> migrations);

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_MIGRATE_H_
