// SPDX-License-Identifier: Apache-2.0
#include "server/store/database.h"

#include <sys/stat.h>

#include <string>

#include "absl/synchronization/mutex.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/blob_store.h"
#include "server/store/migrate.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

mode_t ModeOf(const std::filesystem::path& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
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

TEST(Database, EveryStoreTellsOfItsCommits) {
  Scratch scratch;
  int commits = 0;
  auto database =
      Database::Open(scratch.file(), [&](absl::Duration) { ++commits; });
  ASSERT_TRUE(database.ok()) << database.status();
  SqliteJobStore jobs(**database);
  const jobs::Job job = QueuedJob(1);
  ASSERT_TRUE(jobs.Insert(job, StateEvent(job, 1)).ok());
  EXPECT_EQ(commits, 1);
  ASSERT_TRUE(jobs.Get(job.id).ok());
  EXPECT_EQ(commits, 1) << "reading is no commit";
  auto blobs = BlobStore::Open(**database, scratch.path() / "blobs");
  ASSERT_TRUE(blobs.ok()) << blobs.status();
  commits = 0;
  const std::string bytes = "bytes";
  auto writer = (*blobs)->Begin(base::Sha256Hex(bytes), bytes.size());
  ASSERT_TRUE(writer.ok() && (*writer)->Append(bytes).ok() &&
              (*writer)->Commit().ok());
  EXPECT_EQ(commits, 1);
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

TEST(Database, ReopensWithItsVersion) {
  Scratch scratch;
  OpenOrDie(scratch.file());
  EXPECT_EQ(OpenOrDie(scratch.file())->schema_version(),
            static_cast<int64_t>(AllMigrations().size()));
}

TEST(Database, AFolderThatIsMissingIsNamed) {
  Scratch scratch;
  auto opened = Database::Open(scratch.path() / "absent" / "mpsd.db");
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(opened.status().message()),
              testing::HasSubstr("absent"));
}

}  // namespace
}  // namespace mpsd::store
