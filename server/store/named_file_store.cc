// SPDX-License-Identifier: Apache-2.0
#include "server/store/named_file_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/sync.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace fs = std::filesystem;
namespace {

constexpr char kColumns[] =
    "SELECT id, owner, name, sha256, size_bytes, create_time_us "
    "FROM named_files ";

jobs::NamedFile ReadFile(Query& row) {
  jobs::NamedFile file;
  file.id = row.Text();
  file.owner = row.Text();
  file.name = row.Text();
  file.sha256 = row.Text();
  file.size_bytes = row.Int();
  file.create_time = absl::FromUnixMicros(row.Int());
  return file;
}

absl::Status NoSuchFile(const std::string& id) {
  return absl::NotFoundError(
      jobs::IsNamedFileId(id)
          ? absl::StrCat("you have no file ", id, ": list your files")
          : "there is no such file: ids of files begin with \"file-\"");
}

// An error of link() by which the file system says that it has no hard links.
bool HasNoLinks(int error) {
  return error == EPERM || error == ENOTSUP || error == EOPNOTSUPP ||
         error == EXDEV || error == ENOSYS;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NamedFileStore>> NamedFileStore::Open(
    Database& database, const jobs::BlobStore& blobs, fs::path folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  std::unique_ptr<NamedFileStore> store(
      new NamedFileStore(database, blobs, std::move(folder)));
  if (absl::Status s = store->RemoveStrays(); !s.ok()) return s;
  return store;
}

// What a daemon that was killed between link and row has left.
absl::Status NamedFileStore::RemoveStrays() {
  std::set<std::string> known;
  Connection& c = database_.reader();
  absl::Status read = CatchSqlite("reading the named files", [&] {
    absl::MutexLock lock(&c.mutex());
    Query row(c, "SELECT id FROM named_files");
    while (row.Next()) known.insert(row.Text());
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  std::error_code error;
  std::vector<fs::path> strays;
  for (fs::directory_iterator entry(folder_, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (jobs::IsNamedFileId(name) && !known.contains(name)) {
      strays.push_back(entry->path());
    }
  }
  if (error) return base::ErrnoStatus(error.value(), folder_.string());
  for (const fs::path& stray : strays) unlink(stray.c_str());
  return absl::OkStatus();
}

absl::Status NamedFileStore::Insert(const jobs::NamedFile& file) {
  base::Check(jobs::IsNamedFileId(file.id), "the id names the link");
  absl::Status linked = Link(file);
  if (!linked.ok()) return linked;
  absl::Status inserted = InsertRow(file);
  if (!inserted.ok()) unlink((folder_ / file.id).c_str());
  return inserted;
}

absl::Status NamedFileStore::Link(const jobs::NamedFile& file) {
  const fs::path link = folder_ / file.id;
  const std::string blob = blobs_.PathOf(file.sha256);
  if (::link(blob.c_str(), link.c_str()) == 0) {
    return base::SyncPath(folder_, O_RDONLY);
  }
  if (HasNoLinks(errno)) return absl::OkStatus();
  if (errno == ENOENT) {
    return absl::AbortedError(
        "the file's content has gone meanwhile: send it again");
  }
  return base::ErrnoStatus(errno, link.string());
}

absl::Status NamedFileStore::InsertRow(const jobs::NamedFile& file) {
  Connection& c = database_.writer();
  return CatchSqlite("storing a named file", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    {
      Query count(c, "SELECT count(*) FROM named_files WHERE owner = ?",
                  file.owner);
      count.Next();
      if (count.Int() >= limits::kNamedFiles) {
        return absl::ResourceExhaustedError(
            absl::StrCat("you have ", limits::kNamedFiles,
                         " files, more are not allowed: delete some"));
      }
    }
    Query(c,
          "INSERT INTO named_files (id, owner, name, sha256, size_bytes, "
          "create_time_us) VALUES (?, ?, ?, ?, ?, ?)",
          file.id, file.owner, file.name, file.sha256, file.size_bytes,
          absl::ToUnixMicros(file.create_time))
        .Run();
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::StatusOr<jobs::NamedFile> NamedFileStore::Get(const std::string& owner,
                                                    const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<jobs::NamedFile>;
  return CatchSqlite("reading a named file", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query row(c, absl::StrCat(kColumns, "WHERE id = ? AND owner = ?"), id,
              owner);
    if (!row.Next()) return NoSuchFile(id);
    return ReadFile(row);
  });
}

absl::StatusOr<std::vector<jobs::NamedFile>> NamedFileStore::List(
    const std::string& owner, const Page& page) {
  const bool up = page.oldest_first;
  std::string sql = absl::StrCat(kColumns, "WHERE owner = ?");
  if (!page.after.empty())
    absl::StrAppend(&sql, " AND id ", up ? ">" : "<", " ?");
  absl::StrAppend(&sql, " ORDER BY id", up ? "" : " DESC", " LIMIT ?");
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::NamedFile>>;
  return CatchSqlite("listing named files", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query row(c, sql, owner);
    if (!page.after.empty()) row.Bind(page.after);
    row.Bind(page.limit);
    std::vector<jobs::NamedFile> files;
    while (row.Next()) files.push_back(ReadFile(row));
    return files;
  });
}

absl::Status NamedFileStore::Remove(const std::string& owner,
                                    const std::string& id) {
  Connection& c = database_.writer();
  absl::Status removed = CatchSqlite("removing a named file", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    const int rows = Query(c,
                           "DELETE FROM named_files WHERE id = ? AND "
                           "owner = ?",
                           id, owner)
                         .Run();
    transaction.Commit();
    return rows == 0 ? NoSuchFile(id) : absl::OkStatus();
  });
  if (!removed.ok()) return removed;
  const fs::path link = folder_ / id;
  // A blob without a link or a job goes a while later.
  if (unlink(link.c_str()) != 0 && errno != ENOENT) {
    return base::ErrnoStatus(errno, link.string());
  }
  return absl::OkStatus();
}

}  // namespace mpsd::store
