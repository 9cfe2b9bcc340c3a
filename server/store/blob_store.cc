// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/atomic_file.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/file_times.h"
#include "core/base/sha256.h"
#include "core/base/sync.h"
#include "server/store/blob_batch.h"
#include "server/store/blob_writer.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace fs = std::filesystem;
namespace {

absl::Status FsError(const std::error_code& error, const fs::path& path) {
  return base::ErrnoStatus(error.value(), path.string());
}

// The blobs in FOLDER/ab for every ab: name → size.
std::map<std::string, int64_t> BlobFiles(const fs::path& folder) {
  std::map<std::string, int64_t> found;
  std::error_code error;
  fs::recursive_directory_iterator file(
      folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && file != fs::recursive_directory_iterator();
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (file.depth() != 1 || !jobs::IsSha256(name)) continue;
    std::error_code unreadable;
    const auto size = file->file_size(unreadable);
    if (!unreadable) found[name] = static_cast<int64_t>(size);
  }
  return found;
}

// Whether a file of `from` can get a hard link in `to`. The probe file stays: a
// full disk may have no room for a new one.
bool CanLink(const fs::path& from, const fs::path& to) {
  const fs::path file = from / "link-probe", link = to / ".link-probe";
  std::error_code ignored, error;
  fs::remove(link, ignored);
  const int fd = open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  close(fd);
  fs::create_hard_link(file, link, error);
  struct stat info;
  const bool linked =
      !error && stat(file.c_str(), &info) == 0 && info.st_nlink == 2;
  fs::remove(link, ignored);
  return linked;
}

bool IsUnused(const fs::path& blob, absl::Time before) {
  struct stat info;
  return lstat(blob.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_nlink == 1 &&
         absl::TimeFromTimespec(base::ChangeTime(info)) < before;
}

absl::Status CheckUpload(const std::string& sha256, int64_t size_bytes) {
  if (!jobs::IsSha256(sha256)) {
    return absl::InvalidArgumentError(
        "sha256 must be 64 lower-case hexadecimal digits");
  }
  if (size_bytes < 0) {
    return absl::InvalidArgumentError("size_bytes must not be negative");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(
    Database& database, std::filesystem::path folder, int64_t min_free_bytes) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FsError(error, folder);
  fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return FsError(error, folder);
  const fs::path incoming = folder / "incoming";
  fs::remove_all(incoming, error);
  if (!error) fs::create_directory(incoming, error);
  if (error) return FsError(error, incoming);
  absl::StatusOr<std::unique_ptr<PartialBlobs>> parts =
      PartialBlobs::Open(folder / "partial");
  if (!parts.ok()) return parts.status();
  std::unique_ptr<BlobStore> store(new BlobStore(
      database, std::move(folder), min_free_bytes, *std::move(parts)));
  absl::Status matched = store->MatchRows();
  if (!matched.ok()) return matched;
  return store;
}

absl::Status BlobStore::MatchRows() {
  const std::map<std::string, int64_t> files = BlobFiles(folder_);
  Connection& c = database_.writer();
  return CatchSqlite("matching the blobs with their rows", [&] {
    absl::MutexLock lock(&c.mutex());
    Transaction transaction(c);
    // The names are collected first: SQLite leaves undefined what a SELECT
    // shows of a table whose rows change under it.
    std::vector<std::string> gone;
    {
      Query rows(c, "SELECT sha256 FROM blobs");
      while (rows.Next()) {
        std::string sha256 = rows.Text();
        if (files.count(sha256) == 0) gone.push_back(std::move(sha256));
      }
    }
    for (const std::string& sha256 : gone) {
      Query(c, "DELETE FROM blobs WHERE sha256 = ?", sha256).Run();
    }
    for (const auto& [sha256, size_bytes] : files) {
      RecordBlob(c, sha256, size_bytes);
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

bool BlobStore::Has(const std::string& sha256) {
  if (!jobs::IsSha256(sha256)) return false;
  const std::string path = PathOf(sha256);
  // Sets the access time alone, so that programs that compare modification
  // times see no new file.
  const timespec now[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  struct stat info;
  absl::MutexLock lock(&names_);
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  // Has() says no for a blob that it cannot keep, so that the client uploads it
  // again.
  return utimensat(AT_FDCWD, path.c_str(), now, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<BlobPart> BlobStore::IdleParts(absl::Time before) {
  std::vector<BlobPart> parts = parts_->Idle();
  std::erase_if(
      parts, [&](const BlobPart& part) { return part.last_write >= before; });
  return parts;
}

absl::StatusOr<jobs::UnusedBlobs::Removed> BlobStore::Collect(
    const fs::path& jobs_dir, absl::Duration grace) {
  jobs::UnusedBlobs::Removed removed;
  const PartialBlobs::Freed parts =
      parts_->Collect(grace, [this](const std::string& sha256) {
        std::error_code ignored;
        return fs::exists(PathOf(sha256), ignored);
      });
  removed.parts = parts.parts;
  removed.part_bytes = parts.bytes;
  if (!CanLink(folder_, jobs_dir)) return removed;
  std::vector<std::string> gone;
  for (const auto& [sha256, size_bytes] : BlobFiles(folder_)) {
    const std::string path = PathOf(sha256);
    absl::MutexLock lock(&names_);
    if (!IsUnused(path, absl::Now() - grace)) continue;
    if (unlink(path.c_str()) != 0) continue;
    ++removed.blobs;
    removed.bytes += size_bytes;
    gone.push_back(sha256);
  }
  absl::Status forgotten = Forget(gone);
  if (!forgotten.ok()) return forgotten;
  return removed;
}

absl::StatusOr<jobs::UnusedBlobs::Found> BlobStore::FindUnused(
    const fs::path& jobs_dir, absl::Duration grace, size_t limit) {
  jobs::UnusedBlobs::Found found;
  const absl::Time before = absl::Now() - grace;
  for (BlobPart& part : IdleParts(before)) {
    found.blobs.push_back(
        {std::move(part.sha256), part.size_bytes, std::move(part.user)});
  }
  if (CanLink(folder_, jobs_dir)) {
    for (const auto& [sha256, size_bytes] : BlobFiles(folder_)) {
      if (IsUnused(PathOf(sha256), before)) {
        found.blobs.push_back({sha256, size_bytes});
      }
    }
  }
  std::stable_sort(
      found.blobs.begin(), found.blobs.end(),
      [](const auto& a, const auto& b) { return a.size_bytes > b.size_bytes; });
  for (; found.blobs.size() > limit; found.blobs.pop_back()) {
    ++found.more;
    found.more_bytes += found.blobs.back().size_bytes;
  }
  return found;
}

absl::Status BlobStore::Forget(const std::vector<std::string>& gone) {
  if (gone.empty()) return absl::OkStatus();
  Connection& c = database_.writer();
  return CatchSqlite("forgetting blobs", [&] {
    absl::MutexLock lock(&c.mutex());
    Transaction transaction(c);
    for (const std::string& sha256 : gone) {
      std::error_code ignored;
      if (fs::exists(PathOf(sha256), ignored)) continue;  // uploaded again
      Query(c, "DELETE FROM blobs WHERE sha256 = ?", sha256).Run();
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

std::unique_ptr<jobs::BlobBatch> BlobStore::BeginBatch() {
  return std::make_unique<BlobBatch>(database_, *this, names_, room_,
                                     folder_ / "incoming");
}

std::string BlobStore::PathOf(const std::string& sha256) const {
  if (!jobs::IsSha256(sha256)) return "";
  return (folder_ / sha256.substr(0, 2) / sha256).string();
}

absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> BlobStore::Begin(
    const std::string& sha256, int64_t size_bytes) {
  if (absl::Status s = CheckUpload(sha256, size_bytes); !s.ok()) return s;
  return Write(sha256, size_bytes, 0, nullptr);
}

absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> BlobStore::Resume(
    const std::string& user, const std::string& sha256, int64_t size_bytes,
    int64_t offset_bytes) {
  if (absl::Status s = CheckUpload(sha256, size_bytes); !s.ok()) return s;
  if (offset_bytes < 0 || offset_bytes > size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset_bytes: is ", offset_bytes, ", expected 0 to ",
                     size_bytes, ", the blob's size"));
  }
  absl::StatusOr<std::unique_ptr<PartialBlobs::Hold>> part =
      parts_->Take(user, sha256, offset_bytes);
  if (!part.ok()) return part.status();
  return Write(sha256, size_bytes, offset_bytes, *std::move(part));
}

absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> BlobStore::Write(
    const std::string& sha256, int64_t size_bytes, int64_t offset_bytes,
    std::unique_ptr<PartialBlobs::Hold> part) {
  absl::StatusOr<std::unique_ptr<DiskRoom::Reservation>> room =
      room_.Reserve(size_bytes - offset_bytes);
  if (!room.ok()) return room.status();
  static std::atomic<int64_t> counter{0};
  BlobWriter::Plan plan;
  plan.final_path = PathOf(sha256);
  plan.size_bytes = size_bytes;
  plan.offset_bytes = offset_bytes;
  plan.room = *std::move(room);
  plan.part = std::move(part);
  plan.temporary = folder_ / "incoming" / absl::StrCat(sha256, ".", ++counter);
  return BlobWriter::Begin(database_, names_, std::move(plan));
}

}  // namespace mpsd::store
