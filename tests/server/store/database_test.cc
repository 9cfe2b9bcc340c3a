// SPDX-License-Identifier: Apache-2.0
#include "server/store/database.h"

#include <sqlite3.h>

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "gmock/gmock.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using enum absl::StatusCode;

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest()
      : connection_(SQLite::Database(":memory:", SQLite::OPEN_READWRITE)) {
    absl::MutexLock lock(&connection_.mutex());
    connection_.database().exec("CREATE TABLE t (a, b)");
  }
  Connection connection_;
};

TEST_F(ConnectionTest, OnlyTheLastStatementsAreKept) {
  absl::MutexLock lock(&connection_.mutex());
  const auto number = [](size_t i) { return "SELECT " + std::to_string(i); };
  const auto often = connection_.Prepared("SELECT 'often'");
  Query held(connection_, "SELECT a FROM t");
  for (size_t i = 0; i < 3 * Connection::kKeptStatements; ++i) {
    connection_.Prepared(number(i));
    EXPECT_EQ(connection_.Prepared("SELECT 'often'"), often);
    EXPECT_LE(connection_.kept_statements(), Connection::kKeptStatements);
  }
  EXPECT_EQ(connection_.kept_statements(), Connection::kKeptStatements);
  EXPECT_FALSE(held.Next()) << "it lives as long as its query";
}

TEST_F(ConnectionTest, AQueryStartsAfreshWithoutOldParameters) {
  absl::MutexLock lock(&connection_.mutex());
  {
    Query query(connection_, "SELECT ?1, ?2", 1, 2);
    ASSERT_TRUE(query.Next());
  }
  Query query(connection_, "SELECT ?1, ?2", 3);
  ASSERT_TRUE(query.Next());
  EXPECT_EQ(query.Int(), 3);
  EXPECT_EQ(query.OptionalInt(), std::nullopt);
}

TEST_F(ConnectionTest, AnUnfinishedSelectEndsWithItsQuery) {
  absl::MutexLock lock(&connection_.mutex());
  EXPECT_EQ(Query(connection_, "INSERT INTO t VALUES (1, 2), (3, 4)").Run(), 2);
  {
    Query query(connection_, "SELECT a FROM t");
    ASSERT_TRUE(query.Next());
  }
  // A statement still running would hold the table.
  EXPECT_NO_THROW(connection_.database().exec("DROP TABLE t"));
}

TEST(StatusOf, TranslatesTheCodesOfSqlite) {
  for (const auto& [code, expected] :
       {std::pair(SQLITE_FULL, kResourceExhausted),
        {SQLITE_BUSY, kUnavailable},
        {SQLITE_LOCKED, kUnavailable},
        {SQLITE_CORRUPT, kDataLoss},
        {SQLITE_NOTADB, kDataLoss},
        {SQLITE_READONLY, kPermissionDenied},
        {SQLITE_CANTOPEN, kPermissionDenied},
        {SQLITE_INTERRUPT, kDeadlineExceeded},
        {SQLITE_IOERR, kInternal},
        {SQLITE_MISUSE, kInternal}}) {
    EXPECT_THAT(StatusOf(SQLite::Exception("words", code), "saving x"),
                Fails(expected, "saving x: words"));
  }
}

SQLite::Database OpenRaw(const std::string& path) {
  return SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
}

int64_t IntOf(SQLite::Database& database, const char* sql) {
  return database.execAndGet(sql).getInt64();
}

std::string SchemaOf(SQLite::Database& database) {
  return database
      .execAndGet(
          "SELECT group_concat(sql, ';') FROM "
          "(SELECT sql FROM sqlite_master ORDER BY name)")
      .getString();
}

// A database as mpsd of schema version 1 left it.
std::string SnapshotV1() {
  auto sql = base::ReadFile(MPSD_TEST_SOURCE_DIR
                            "/tests/server/store/testdata/v1.sql");
  EXPECT_TRUE(sql.ok()) << sql.status();
  return *sql;
}

TEST(Migrate, BringsAnEmptyDatabaseToTheNewestVersion) {
  SQLite::Database database = OpenRaw(":memory:");
  auto version = Ok(Migrate(database, AllMigrations()));
  EXPECT_EQ(version, static_cast<int64_t>(AllMigrations().size()));
  EXPECT_EQ(IntOf(database, "PRAGMA user_version"), version);
  EXPECT_EQ(IntOf(database, "PRAGMA application_id"), kApplicationId);
  for (const char* table :
       {"jobs", "events", "checkpoints", "blobs", "labels"}) {
    EXPECT_TRUE(database.tableExists(table)) << table;
  }
  EXPECT_EQ(IntOf(database,
                  "SELECT count(*) FROM pragma_table_list WHERE schema = "
                  "'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' "
                  "AND NOT strict"),
            0);
  const std::string before = SchemaOf(database);
  ASSERT_TRUE(Migrate(database, AllMigrations()).ok());
  EXPECT_EQ(SchemaOf(database), before) << "again changes nothing";
}

TEST(Migrate, NamesAreNumberedWithoutGaps) {
  int number = 0;
  for (const Migration& migration : AllMigrations()) {
    EXPECT_EQ(std::string(migration.name).substr(0, 5),
              absl::StrFormat("%04d_", ++number));
  }
}

// The schema that a fresh database gets is the one an old one grows into.
TEST(Migrate, SnapshotOfVersion1GrowsIntoTheNewest) {
  SQLite::Database old = OpenRaw(":memory:");
  old.exec(SnapshotV1());
  ASSERT_EQ(IntOf(old, "PRAGMA user_version"), 1);
  Ok(Migrate(old, AllMigrations()));
  SQLite::Database fresh = OpenRaw(":memory:");
  ASSERT_TRUE(Migrate(fresh, AllMigrations()).ok());
  EXPECT_EQ(SchemaOf(old), SchemaOf(fresh));
}

TEST(Migrate, SnapshotOfVersion1IsReadWhole) {
  Scratch scratch;
  OpenRaw(scratch.file()).exec(SnapshotV1());
  std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  jobs::JobStore store(*database);
  auto jobs = Ok(store.List({}));
  ASSERT_EQ(jobs.size(), 2u);
  const jobs::Job& queued = jobs[0];
  EXPECT_EQ(queued.id, "01J00000000000000000000002");
  EXPECT_EQ(queued.state, jobs::State::kQueued);
  EXPECT_EQ(queued.idempotency_key, "k2");
  auto by_key = store.FindByIdempotencyKey(queued.owner, "k2");
  ASSERT_TRUE(by_key.ok() && by_key->has_value()) << by_key.status();
  EXPECT_EQ((*by_key)->id, queued.id);
  EXPECT_EQ(queued.kind, jobs::JobKind::kTraining);
  const jobs::Job& done = jobs[1];
  EXPECT_EQ(done.state, jobs::State::kSucceeded);
  EXPECT_EQ(done.owner, "ana");
  EXPECT_EQ(done.labels.at("team"), "nlp");
  EXPECT_EQ(done.exit_reason, jobs::ExitReason::kDone);
  EXPECT_EQ(done.eval_loss_after, 1.25);
  EXPECT_FALSE(done.output_path.empty());
  EXPECT_EQ(done.output_kind, jobs::OutputKind::kAdapter);
  EXPECT_TRUE(done.metrics.empty());
  EXPECT_TRUE(done.warnings.empty());
  EXPECT_FALSE(done.best_evaluation.has_value());
  ASSERT_TRUE(done.progress.has_value());
  EXPECT_EQ(done.progress->step, 2);
  EXPECT_EQ(done.progress->memory.footprint_bytes, 4096);
  EXPECT_EQ(store.Events(done.id, 0, 100)->size(), 5u);
  ASSERT_EQ(store.Checkpoints(done.id)->size(), 1u);
  EXPECT_EQ(store.Checkpoints(done.id)->at(0).bytes, 1000);
}

// The migrations before the one of that name.
std::vector<Migration> Before(const std::string& name) {
  std::vector<Migration> list;
  for (const Migration& migration : AllMigrations()) {
    if (migration.name == name) return list;
    list.push_back(migration);
  }
  ADD_FAILURE() << "no migration " << name;
  return list;
}

TEST(Migrate, ParitiesBecomeDeviceComparisons) {
  Scratch scratch;
  {
    SQLite::Database old = OpenRaw(scratch.file());
    ASSERT_TRUE(Migrate(old, Before("0025_no_parity")).ok());
    for (const auto& [id, state] :
         {std::pair("Q", 1), {"R", 2}, {"S", 3}, {"F", 4}, {"C", 5}}) {
      old.exec(absl::StrFormat(
          "INSERT INTO jobs (id, name, state, cancel_requested, owner, "
          "priority, create_time_us, end_time_us, attempt, failures, message, "
          "output_path, spec_json, request_hash, kind, study_json) VALUES "
          "('%s', 'n', %d, 0, 'ada', 0, 1, %s, 0, 0, 'as it was', '', '{}', "
          "'', 7, '{\"reference_device\":\"cpu\"}')",
          id, state, state < 3 ? "NULL" : "5"));
      old.exec(
          "INSERT INTO events (job, sequence, time_us, kind, body) SELECT "
          "number, 1, 1, 1, '{\"state\":1,\"message\":\"\"}' FROM jobs "
          "WHERE id = '" +
          std::string(id) + "'");
    }
  }
  std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  jobs::JobStore store(*database);
  for (const char* id : {"Q", "R", "S", "F", "C"}) {
    SCOPED_TRACE(id);
    const auto job = Ok(store.Get(id));
    EXPECT_EQ(job.kind, jobs::JobKind::kDeviceComparison);
    EXPECT_EQ(job.study_json, "{}");
    EXPECT_EQ(job.owner, "ada");
    const auto events = Ok(store.Events(id, 0, 100));
    if (std::string("QR").find(id) == std::string::npos) {
      EXPECT_EQ(job.message, "as it was");
      EXPECT_EQ(events.size(), 1u);
      continue;
    }
    EXPECT_EQ(job.state, jobs::State::kCancelled);
    EXPECT_THAT(job.message, HasSubstr("mpsctl compare-devices"));
    EXPECT_TRUE(job.end_time.has_value());
    ASSERT_EQ(events.size(), 2u);
    const auto& change = std::get<jobs::StateChanged>(events[1].body);
    EXPECT_EQ(change.state, jobs::State::kCancelled);
    EXPECT_EQ(change.message, job.message);
  }
}

TEST(Migrate, PathsAndNamesInSpecsBecomeUses) {
  Scratch scratch;
  const std::string a = "01J0000000000000000000000A", b = a.substr(1) + "B",
                    c = a.substr(1) + "C", d = a.substr(1) + "D";
  {
    SQLite::Database old = OpenRaw(scratch.file());
    ASSERT_TRUE(Migrate(old, Before("0028_job_uses")).ok());
    const std::pair<std::string, std::string> jobs[] = {
        {a, "no JSON"},
        {b, R"({"model":"job:)" + a + R"(","adapter":"/s/jobs/)" + b +
                R"(/inputs/x"})"},
        // Beginnings and texts are no paths in a job's folder.
        {c, R"({"name":"/jobs/)" + a + R"(/","adapter":"/jobs/)" + b +
                R"(X/y","dataset":{"train":["/t","/jobs/jobs/)" + b +
                R"("],"eval":[]}})"},
        {d, R"({"dataset":{"predict":"/s/jobs/)" + c +
                R"(/jobs/none/x"},"training":{"chat_template_path":"/jobs/)" +
                a + R"(/t"}})"}};
    for (const auto& [id, spec] : jobs) {
      old.exec(
          "INSERT INTO jobs (id, name, state, cancel_requested, owner, "
          "priority, create_time_us, attempt, failures, message, "
          "output_path, spec_json, request_hash) VALUES ('" +
          id + "', 'n', 1, 0, 'ada', 0, 1, 0, 0, '', '', '" + spec + "', '')");
    }
  }
  std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  jobs::JobStore store(*database);
  EXPECT_THAT(Ok(store.Get(a)).uses, IsEmpty());
  EXPECT_THAT(Ok(store.Get(b)).uses, ElementsAre(a));
  EXPECT_THAT(Ok(store.Get(c)).uses, ElementsAre(b));
  EXPECT_THAT(Ok(store.Get(d)).uses, testing::UnorderedElementsAre(a, c));
}

// 1f12907 was the last whose mpsd kept sweeps.
TEST(Migrate, JobsOfSweepsStayWithTheirNamesAsLabels) {
  Scratch scratch;
  {
    SQLite::Database old = OpenRaw(scratch.file());
    ASSERT_TRUE(Migrate(old, Before("0026_sweeps")).ok());
    old.exec(
        "INSERT INTO sweeps (id, name, owner, create_time_us, plan, rungs, "
        "request_hash) VALUES ('S1', 'ranks', 'ana', 0, '{}', 1, ''), "
        "('S2', 'twice', 'ana', 0, '{}', 0, ''), "
        "('S3', 'twice', 'ana', 0, '{}', 0, ''), "
        "('S4', '', 'ana', 0, '{}', 0, '')");
    const struct {
      const char *id, *sweep, *columns;
    } jobs[] = {
        // At its rung; before it; held there; ended there; queued from scratch.
        {"01J00000000000000000000001", "S1", "1, 4, 4, 0, '', 0"},
        {"01J00000000000000000000002", "S1", "1, 4, 2, 0, '', 0"},
        {"01J00000000000000000000003", "S1", "1, 4, 4, 1, 'mine', 0"},
        {"01J00000000000000000000004", "S1", "5, 4, 4, 0, '', 0"},
        {"01J00000000000000000000005", "S1", "1, 4, 4, 0, '', 1"},
        {"01J00000000000000000000006", "S2", "3, 0, 8, 0, '', 0"},
        {"01J00000000000000000000007", "S4", "3, 0, 8, 0, '', 0"},
        {"01J00000000000000000000008", "", "3, 0, 8, 0, '', 0"},
    };
    for (const auto& job : jobs) {
      old.exec(absl::StrFormat(
          "INSERT INTO jobs (id, name, cancel_requested, owner, priority, "
          "create_time_us, attempt, failures, message, output_path, spec_json, "
          "request_hash, sweep_id, state, until_step, durable_step, held, "
          "hold_reason, fresh) VALUES ('%s', 'n', 0, 'ana', 0, 0, 0, 0, '', "
          "'', '{}', 'h', '%s', %s)",
          job.id, job.sweep, job.columns));
      old.exec(absl::StrFormat(
          "INSERT INTO sweep_children (sweep, position, job_id, assigned) "
          "SELECT number, %d, '%s', '[]' FROM sweeps WHERE id = '%s'",
          job.id[25], job.id, job.sweep));
    }
    old.exec(
        "INSERT INTO labels SELECT number, 'sweep', 'own' FROM jobs "
        "WHERE id LIKE '%2'");
  }
  std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  jobs::JobStore store(*database);
  jobs::ListFilter filter;
  filter.ascending = true;
  auto jobs = Ok(store.List(filter));
  ASSERT_EQ(jobs.size(), 8u);
  const char* labels[] = {"ranks", "own",      "ranks", "ranks",
                          "ranks", "twice S2", "S4"};
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(jobs[i].labels["sweep"], labels[i]) << i;
  }
  EXPECT_TRUE(jobs[7].labels.empty());
  EXPECT_TRUE(jobs[0].held);
  EXPECT_THAT(
      jobs[0].hold_reason,
      HasSubstr("at step 4, where its sweep was to decide: release it"));
  EXPECT_EQ(jobs[2].hold_reason, "mine");
  for (const size_t i : {1, 3, 4, 5, 6, 7}) EXPECT_FALSE(jobs[i].held) << i;
  filter.labels = {{"sweep", "ranks"}};
  filter.held = true;
  auto held = Ok(store.List(filter));
  EXPECT_EQ(held.size(), 2u);
}

TEST(Migrate, AFailedMigrationLeavesTheVersionBeforeIt) {
  SQLite::Database database = OpenRaw(":memory:");
  database.exec(SnapshotV1());
  const std::string before = SchemaOf(database);
  const Migration list[] = {
      {"0001_initial", ""},
      {"0002_bad", "CREATE TABLE half (a); DELETE FROM jobs; SELECT nonsense"}};
  const absl::Status failed = Migrate(database, list).status();
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(std::string(failed.message()), HasSubstr("0002_bad"));
  EXPECT_EQ(SchemaOf(database), before);
  EXPECT_EQ(IntOf(database, "PRAGMA user_version"), 1);
  EXPECT_EQ(IntOf(database, "SELECT count(*) FROM jobs"), 2);
}

TEST(Migrate, OneThatOrphansRowsFails) {
  SQLite::Database database = OpenRaw(":memory:");
  database.exec(SnapshotV1());
  const Migration list[] = {{"0001_initial", ""},
                            {"0002_orphans", "DELETE FROM jobs"}};
  auto version = Migrate(database, list);
  ASSERT_FALSE(version.ok());
  EXPECT_EQ(IntOf(database, "SELECT count(*) FROM jobs"), 2);
}

TEST(Migrate, ANewerSchemaIsRefusedUntouched) {
  Scratch scratch;
  {
    SQLite::Database database = OpenRaw(scratch.file());
    database.exec(SnapshotV1());
    database.exec("PRAGMA user_version = 41");
  }
  const auto before = base::ReadFile(scratch.file());
  EXPECT_THAT(
      Database::Open(scratch.file()),
      Fails(kFailedPrecondition,
            AllOf(HasSubstr("schema version 41"),
                  HasSubstr(absl::StrCat("up to ", AllMigrations().size())),
                  HasSubstr("newer mpsd"))));
  EXPECT_EQ(*base::ReadFile(scratch.file()), *before);
}

TEST(Migrate, AnotherProgramsDatabaseIsRefusedUntouched) {
  for (const char* sql : {"CREATE TABLE theirs (a)",
                          "PRAGMA application_id = 7; CREATE TABLE t(a)",
                          "PRAGMA user_version = 1; CREATE TABLE t (a)"}) {
    Scratch scratch;
    OpenRaw(scratch.file()).exec(sql);
    const auto before = base::ReadFile(scratch.file());
    EXPECT_THAT(Database::Open(scratch.file()),
                Fails(kFailedPrecondition, "not a database of mpsd"));
    EXPECT_EQ(*base::ReadFile(scratch.file()), *before);
  }
}

TEST(Migrate, AFileThatIsNoDatabaseIsDataLoss) {
  Scratch scratch;
  ASSERT_TRUE(
      base::WriteFileAtomic(scratch.file(), std::string(8192, 'x')).ok());
  EXPECT_THAT(Database::Open(scratch.file()), Fails(kDataLoss));
}

TEST(Database, IsForItsOwnerAlone) {
  Scratch scratch;
  std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  {
    absl::MutexLock lock(&database->writer().mutex());
    Query(database->writer(), "DELETE FROM blobs").Run();
    Query(database->writer(), "PRAGMA user_version=1").Run();
  }
  EXPECT_EQ(ModeOf(scratch.file()), 0600u);
  EXPECT_EQ(ModeOf(scratch.file().string() + "-wal"), 0600u);
}

TEST(Database, UsesAWriteAheadLogAndForeignKeys) {
  Scratch scratch;
  std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  Connection& c = database->writer();
  absl::MutexLock lock(&c.mutex());
  EXPECT_EQ(c.database().execAndGet("PRAGMA journal_mode").getString(), "wal");
  EXPECT_EQ(c.database().execAndGet("PRAGMA foreign_keys").getInt(), 1);
  EXPECT_EQ(c.database().execAndGet("PRAGMA synchronous").getInt(), 2);
}

TEST(Database, TheReaderSeesCommitsAndCannotWrite) {
  Scratch scratch;
  std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  const std::string insert =
      "INSERT INTO blobs VALUES ('" + std::string(64, 'a') + "', 1, 1)";
  {
    absl::MutexLock lock(&database->writer().mutex());
    Query(database->writer(), insert).Run();
  }
  Connection& reader = database->reader();
  absl::MutexLock lock(&reader.mutex());
  {
    Query query(reader, "SELECT count(*) FROM blobs");
    ASSERT_TRUE(query.Next());
    EXPECT_EQ(query.Int(), 1);
  }
  EXPECT_THROW(Query(reader, "DELETE FROM blobs").Run(), SQLite::Exception);
}

TEST(Database, AFolderThatIsMissingIsNamed) {
  Scratch scratch;
  EXPECT_THAT(Database::Open(scratch.path() / "absent" / "mpsd.db"),
              Fails(kNotFound, "absent"));
}

}  // namespace
}  // namespace mpsd::store
