// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_batch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/sync.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace fs = std::filesystem;
namespace {

// Writes a new file, read-only for good. Returns 0 or an errno.
int WriteNew(const fs::path& path, std::string_view bytes) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
  if (fd < 0) return errno;
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n >= 0) bytes.remove_prefix(n);
    if (n < 0 && errno != EINTR) error = errno;
  }
  close(fd);
  return error;
}

}  // namespace

absl::Status PlaceBlob(const fs::path& temporary, const fs::path& final_path,
                       absl::Mutex& names, std::set<fs::path>& changed) {
  const fs::path folder = final_path.parent_path();
  std::error_code error;
  if (fs::create_directory(folder, error)) changed.insert(folder.parent_path());
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  {
    // Without the lock Collect could look at an old blob of this name and then
    // unlink the new one.
    absl::MutexLock lock(&names);
    // A blob that is there has links, which say who needs it: a new file in its
    // place would have none, and be collected. Its change time is renewed, as
    // by Has.
    const timespec now[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    struct stat info;
    const bool is_there =
        lstat(final_path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        utimensat(AT_FDCWD, final_path.c_str(), now, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there) {
      fs::remove(temporary, error);
    } else {
      fs::rename(temporary, final_path, error);
    }
  }
  if (error) return base::ErrnoStatus(error.value(), final_path.string());
  changed.insert(folder);
  return absl::OkStatus();
}

void RecordBlob(Connection& c, const std::string& sha256, int64_t size_bytes) {
  Query(c,
        "INSERT OR IGNORE INTO blobs (sha256, size_bytes, create_time_us) "
        "VALUES (?, ?, ?)",
        sha256, size_bytes, absl::ToUnixMicros(absl::Now()))
      .Run();
}

BlobBatch::~BlobBatch() {
  for (const auto& [sha256, staged] : staged_) unlink(staged.path.c_str());
}

absl::Status BlobBatch::Add(const std::string& sha256, std::string_view bytes) {
  base::Check(!committed_, "Add comes before Commit");
  const std::string hash = base::Sha256Hex(bytes);
  if (hash != sha256) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the blob's SHA-256 is ", hash, ", announced was ", sha256));
  }
  if (staged_.contains(sha256)) return absl::OkStatus();
  const auto room = room_.Reserve(static_cast<int64_t>(bytes.size()));
  if (!room.ok()) return room.status();
  static std::atomic<int64_t> counter{0};
  const fs::path path = incoming_ / absl::StrCat(sha256, ".b", ++counter);
  // The name is noted before the write, so that the destructor removes a file
  // that a full disk cut short.
  staged_[sha256] = {path, static_cast<int64_t>(bytes.size())};
  if (const int error = WriteNew(path, bytes)) {
    return base::ErrnoStatus(error, path.string());
  }
  return absl::OkStatus();
}

absl::Status BlobBatch::Commit() {
  base::Check(!std::exchange(committed_, true), "Commit is called once");
  absl::Status status = Place();
  if (status.ok()) status = Record();
  if (status.ok()) staged_.clear();
  return status;
}

absl::Status BlobBatch::Place() {
  std::vector<fs::path> written;
  written.reserve(staged_.size());
  for (const auto& [sha256, staged] : staged_) written.push_back(staged.path);
  // The files are flushed before any rename: the name of a blob promises its
  // bytes, also after a power cut.
  absl::Status synced = base::SyncAll(written);
  if (!synced.ok()) return synced;
  std::set<fs::path> changed;
  for (const auto& [sha256, staged] : staged_) {
    const fs::path final_path = store_.PathOf(sha256);
    base::Check(!final_path.empty(), "what Add took is named by a hash");
    absl::Status placed = PlaceBlob(staged.path, final_path, names_, changed);
    if (!placed.ok()) return placed;
  }
  return base::SyncAll({changed.begin(), changed.end()});
}

absl::Status BlobBatch::Record() {
  Connection& c = database_.writer();
  return CatchSqlite("recording blobs", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    for (const auto& [sha256, staged] : staged_) {
      RecordBlob(c, sha256, staged.size_bytes);
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::store
