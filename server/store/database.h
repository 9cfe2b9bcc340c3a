// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_DATABASE_H_
#define MPSD_SERVER_STORE_DATABASE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "SQLiteCpp/Database.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/store/connection.h"

namespace mpsd::store {

// mpsd's PRAGMA application_id: the bytes of "mpsd".
inline constexpr int32_t kApplicationId = 0x6d707364;

struct Migration {
  const char* name;  // "0001_initial"
  const char* sql;
};

// migrations/*.sql in order. The schema version is their number; PRAGMA
// user_version says how many of them a database has.
absl::Span<const Migration> AllMigrations();

// Brings the database to the newest version, each missing migration in one
// transaction, and returns that version. A failed migration leaves the database
// at the version before it. FailedPrecondition, the file untouched, if
//   - it was written by a newer mpsd,
//   - it is another program's.
absl::StatusOr<int64_t> Migrate(SQLite::Database& database,
                                absl::Span<const Migration> migrations);

// The state folder's SQLite file, with one connection that writes and two that
// only read, so that a reader never waits for a writer's fsync (WAL), and a
// read of one job never for a list of all of them. Thread-safe. The database
// must outlive the stores that use it.
class Database {
 public:
  // Opens or creates `path` and migrates it. Only its owner may read a new
  // file. Errors as in Migrate and StatusOf. `on_commit`: as in Connection;
  // called on any thread.
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::filesystem::path& path, Connection::OnCommit on_commit = {});

  Connection& writer() { return *writer_; }
  Connection& reader() { return *reader_; }
  Connection& lister() { return *lister_; }
  int64_t schema_version() const { return schema_version_; }

 private:
  Database(std::unique_ptr<Connection> writer,
           std::unique_ptr<Connection> reader,
           std::unique_ptr<Connection> lister, int64_t schema_version)
      : writer_(std::move(writer)),
        reader_(std::move(reader)),
        lister_(std::move(lister)),
        schema_version_(schema_version) {}

  const std::unique_ptr<Connection> writer_;
  const std::unique_ptr<Connection> reader_;
  const std::unique_ptr<Connection> lister_;
  const int64_t schema_version_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_DATABASE_H_
