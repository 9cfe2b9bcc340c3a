// SPDX-License-Identifier: Apache-2.0
#include "server/store/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::store {
namespace {

// Reports the object's lifetime to the connection. A failed commit throws, and
// on a dying disk it does so late.
class CommitTimer {
 public:
  explicit CommitTimer(const Connection& connection)
      : connection_(connection) {}
  ~CommitTimer() { connection_.Committed(clock_.Monotonic() - start_); }
  CommitTimer(const CommitTimer&) = delete;
  CommitTimer& operator=(const CommitTimer&) = delete;

 private:
  const Connection& connection_;
  const base::Clock& clock_ = base::Clock::Real();
  const absl::Duration start_ = clock_.Monotonic();
};

}  // namespace

void Connection::SetDurability(Durability durability) {
  if (durability_ == durability) return;
  database_.exec(durability == Durability::kPowerCut
                     ? "PRAGMA synchronous=FULL"
                     : "PRAGMA synchronous=NORMAL");
  durability_ = durability;
}

std::shared_ptr<SQLite::Statement> Connection::Prepared(
    const std::string& sql) {
  const auto found =
      std::find_if(statements_.begin(), statements_.end(),
                   [&](const Kept& kept) { return kept.sql == sql; });
  if (found != statements_.end()) {
    statements_.splice(statements_.begin(), statements_, found);
    return statements_.front().statement;
  }
  statements_.push_front(
      {sql, std::make_shared<SQLite::Statement>(database_, sql)});
  // A Query that runs shares the ownership of its statement, so this finalizes
  // none in use.
  if (statements_.size() > kKeptStatements) statements_.pop_back();
  return statements_.front().statement;
}

void Transaction::Commit() {
  const CommitTimer timer(connection_);
  transaction_.commit();
}

Query::~Query() {
  // tryReset, because reset would throw the failed step's error a second time.
  statement_.tryReset();
  try {
    statement_.clearBindings();
  } catch (const SQLite::Exception&) {
    // The next Query binds every parameter anew, so the old values may stay.
  }
}

namespace {

// SQLite's virtual machine executes this many instructions between two checks
// of the clock: a fraction of a millisecond, or the pages of a few texts.
constexpr int kInstructions = 1000;

}  // namespace

TimeLimit::TimeLimit(Connection& connection, absl::Duration limit)
    : handle_(connection.database().getHandle()),
      end_(std::chrono::steady_clock::now() +
           absl::ToChronoNanoseconds(limit)) {
  sqlite3_progress_handler(handle_, kInstructions, &TimeLimit::IsOver, this);
}

TimeLimit::~TimeLimit() {
  sqlite3_progress_handler(handle_, 0, nullptr, nullptr);
}

int TimeLimit::IsOver(void* limit) {
  const auto* self = static_cast<const TimeLimit*>(limit);
  return std::chrono::steady_clock::now() < self->end_ ? 0 : 1;
}

namespace {

absl::Status ConstraintStatus(int extended_code, const std::string& text) {
  switch (extended_code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
      return absl::AlreadyExistsError(text);
    case SQLITE_CONSTRAINT_TRIGGER:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace

absl::Status StatusOf(const SQLite::Exception& error, const std::string& what) {
  const std::string text = absl::StrCat(what, ": ", error.what());
  switch (error.getErrorCode()) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; free space on the state folder's disk"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(
          absl::StrCat(text, "; another program holds the database"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(
          absl::StrCat(text,
                       "; restore mpsd.db from a backup, or move it away "
                       "to start with an empty queue"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return absl::PermissionDeniedError(
          absl::StrCat(text, "; mpsd needs to write its state folder"));
    case SQLITE_INTERRUPT:
      return absl::DeadlineExceededError(text);
    case SQLITE_CONSTRAINT:
      return ConstraintStatus(error.getExtendedErrorCode(), text);
    default:
      return absl::InternalError(text);
  }
}

namespace {

constexpr Migration kMigrations[] = {
#include "migrations.inc"
};

int64_t IntPragma(SQLite::Database& database, const std::string& name) {
  return database.execAndGet("PRAGMA " + name).getInt64();
}

absl::Status CheckOwner(SQLite::Database& database) {
  const int64_t application_id = IntPragma(database, "application_id");
  if (application_id == kApplicationId) return absl::OkStatus();
  const int64_t objects =
      database.execAndGet("SELECT count(*) FROM sqlite_master").getInt64();
  const int64_t version = IntPragma(database, "user_version");
  if (application_id == 0 && version == 0 && objects == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      database.getFilename(), " is not a database of mpsd (application_id ",
      application_id, ", expected ", kApplicationId,
      "); choose another --state-dir or move the file away"));
}

absl::Status CheckVersion(SQLite::Database& database, int64_t version,
                          int64_t newest) {
  if (version >= 0 && version <= newest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      database.getFilename(), " has schema version ", version,
      ", this mpsd knows versions up to ", newest,
      "; run the newer mpsd that wrote it, or choose another --state-dir"));
}

absl::Status Apply(SQLite::Database& database, int64_t version,
                   const Migration& migration) {
  return CatchSqlite(absl::StrCat("migration ", migration.name), [&] {
    SQLite::Transaction transaction(database,
                                    SQLite::TransactionBehavior::IMMEDIATE);
    database.exec(migration.sql);
    SQLite::Statement orphans(database, "PRAGMA foreign_key_check");
    if (orphans.executeStep()) {
      return absl::InternalError(absl::StrCat(
          "migration ", migration.name, " leaves a row of table ",
          orphans.getColumn(0).getString(), " without its parent"));
    }
    orphans.reset();
    // The version is part of the transaction: a kill leaves the old schema with
    // the old number, and the next start migrates again.
    database.exec(absl::StrCat("PRAGMA application_id=", kApplicationId,
                               "; PRAGMA user_version=", version));
    transaction.commit();
    return absl::OkStatus();
  });
}

}  // namespace

absl::Span<const Migration> AllMigrations() { return kMigrations; }

absl::StatusOr<int64_t> Migrate(SQLite::Database& database,
                                absl::Span<const Migration> migrations) {
  const int64_t newest = migrations.size();
  return CatchSqlite(database.getFilename(), [&]() -> absl::StatusOr<int64_t> {
    RETURN_IF_ERROR(CheckOwner(database));
    const int64_t found = IntPragma(database, "user_version");
    RETURN_IF_ERROR(CheckVersion(database, found, newest));
    for (int64_t version = found; version < newest; ++version) {
      RETURN_IF_ERROR(Apply(database, version + 1, migrations[version]));
    }
    return newest;
  });
}

namespace {

constexpr int kBusyTimeoutMs = 5000;

// Creates the file, because SQLite would make it readable by all users; -wal
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
  const bool in_memory = path == ":memory:";
  if (!in_memory) RETURN_IF_ERROR(CreatePrivate(path));
  return CatchSqlite(path.string(), [&]() -> Result {
    SQLite::Database writer(path.string(),
                            SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX,
                            kBusyTimeoutMs);
    Configure(writer);
    // Migrate refuses another program's file, so it comes before the switch to
    // WAL, which would change that file for good.
    ASSIGN_OR_RETURN(int64_t version, Migrate(writer, AllMigrations()));
    if (!in_memory) RETURN_IF_ERROR(SwitchToWal(writer));
    const auto open_reader = [&]() -> std::unique_ptr<Connection> {
      if (in_memory) return nullptr;
      SQLite::Database reader(path.string(),
                              SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX,
                              kBusyTimeoutMs);
      Configure(reader);
      return std::make_unique<Connection>(std::move(reader));
    };
    return std::unique_ptr<Database>(new Database(
        std::make_unique<Connection>(std::move(writer), std::move(on_commit)),
        open_reader(), open_reader(), version));
  });
}

}  // namespace mpsd::store
