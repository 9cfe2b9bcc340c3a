// SPDX-License-Identifier: Apache-2.0
#include "server/store/database.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "server/store/migrate.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace {

constexpr int kBusyTimeoutMs = 5000;

// Creates the file, because SQLite would make it readable by everybody; -wal
// and -shm copy its mode.
absl::Status CreatePrivate(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  close(fd);
  return absl::OkStatus();
}

void Configure(SQLite::Database& database) {
  database.exec(
      "PRAGMA foreign_keys=ON;"
      "PRAGMA trusted_schema=OFF;"
      "PRAGMA fullfsync=ON;"             // macOS: to the platter, not the
      "PRAGMA checkpoint_fullfsync=ON;"  // drive's cache
      "PRAGMA journal_size_limit=67108864");
}

absl::Status SwitchToWal(SQLite::Database& database) {
  const std::string mode =
      database.execAndGet("PRAGMA journal_mode=WAL").getString();
  if (mode == "wal") return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      database.getFilename(), " cannot use a write-ahead log (journal_mode ",
      mode, "); put --state-dir on a local file system"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(
    const std::filesystem::path& path, Connection::OnCommit on_commit) {
  using Result = absl::StatusOr<std::unique_ptr<Database>>;
  absl::Status created = CreatePrivate(path);
  if (!created.ok()) return created;
  return CatchSqlite(path.string(), [&]() -> Result {
    SQLite::Database writer(path.string(),
                            SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX,
                            kBusyTimeoutMs);
    Configure(writer);
    // Migrate refuses another program's file, so it comes before the switch to
    // WAL, which would change that file for good.
    absl::StatusOr<int64_t> version = Migrate(writer, AllMigrations());
    if (!version.ok()) return version.status();
    absl::Status wal = SwitchToWal(writer);
    if (!wal.ok()) return wal;
    const auto open_reader = [&path] {
      SQLite::Database reader(path.string(),
                              SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX,
                              kBusyTimeoutMs);
      Configure(reader);
      return std::make_unique<Connection>(std::move(reader));
    };
    return std::unique_ptr<Database>(new Database(
        std::make_unique<Connection>(std::move(writer), std::move(on_commit)),
        open_reader(), open_reader(), *version));
  });
}

}  // namespace mpsd::store
