// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "SQLiteCpp/Transaction.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace fs = std::filesystem;
namespace {

absl::Status FsError(const std::error_code& error, const fs::path& path) {
  return base::ErrnoStatus(error.value(), path.string());
}

absl::Status SyncDescriptor(int fd, const fs::path& path) {
#ifdef __APPLE__
  // fsync on macOS leaves the bytes in the drive's cache.
  if (fcntl(fd, F_FULLFSYNC) == 0) return absl::OkStatus();
#endif
  if (fsync(fd) != 0) return base::ErrnoStatus(errno, path.string());
  return absl::OkStatus();
}

absl::Status SyncFolder(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  absl::Status synced = SyncDescriptor(fd, path);
  close(fd);
  return synced;
}

void RecordBlob(Connection& c, const std::string& sha256, int64_t size_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query(c,
        "INSERT OR IGNORE INTO blobs (sha256, size_bytes, create_time_us) "
        "VALUES (?, ?, ?)",
        sha256, size_bytes, absl::ToUnixMicros(absl::Now()))
      .Run();
}

class Writer : public jobs::BlobWriter {
 public:
  Writer(Database& database, fs::path temporary, int fd, fs::path final_path,
         int64_t size_bytes)
      : database_(database),
        temporary_(std::move(temporary)),
        final_(std::move(final_path)),
        size_bytes_(size_bytes),
        fd_(fd) {}
  ~Writer() override {
    close(fd_);
    if (!committed_) unlink(temporary_.c_str());
  }

  absl::Status Append(std::string_view bytes) override {
    if (bytes.size() > static_cast<uint64_t>(size_bytes_ - written_)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the blob was announced with ", size_bytes_, " bytes; more came"));
    }
    hash_.Update(bytes);
    written_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t n = write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return base::ErrnoStatus(errno, temporary_.string());
      bytes.remove_prefix(n);
    }
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    absl::Status verified = Verify();
    if (!verified.ok()) return verified;
    absl::Status placed = Place();
    if (!placed.ok()) return placed;
    Connection& c = database_.writer();
    return Caught("recording a blob", [&] {
      absl::MutexLock lock(&c.mutex());
      c.SetDurability(Connection::Durability::kPowerCut);
      RecordBlob(c, final_.filename().string(), size_bytes_);
      return absl::OkStatus();
    });
  }

 private:
  absl::Status Verify() {
    if (written_ != size_bytes_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the blob was announced with ", size_bytes_, " bytes; ",
                       written_, " came"));
    }
    const std::string hash = hash_.FinishHex();
    if (hash == final_.filename().string()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the blob's SHA-256 is ",
                                                   hash, ", announced was ",
                                                   final_.filename().string()));
  }

  absl::Status Place() {
    if (fchmod(fd_, 0400) != 0) {
      return base::ErrnoStatus(errno, temporary_.string());
    }
    absl::Status synced = SyncDescriptor(fd_, temporary_);
    if (!synced.ok()) return synced;
    const fs::path folder = final_.parent_path();
    std::error_code error;
    const bool is_new = fs::create_directory(folder, error);
    if (error) return FsError(error, folder);
    fs::rename(temporary_, final_, error);
    if (error) return FsError(error, final_);
    committed_ = true;
    synced = SyncFolder(folder);
    if (synced.ok() && is_new) synced = SyncFolder(folder.parent_path());
    return synced;
  }

  Database& database_;
  const fs::path temporary_;
  const fs::path final_;  // …/ab/<sha256>
  const int64_t size_bytes_;
  const int fd_;
  base::Sha256 hash_;
  int64_t written_ = 0;
  bool committed_ = false;
};

// The blobs in FOLDER/ab, added to `found`: name → size.
void BlobsOfShard(const fs::path& shard,
                  std::map<std::string, int64_t>& found) {
  std::error_code error;
  fs::directory_iterator file(shard, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    const std::string name = file->path().filename().string();
    std::error_code unreadable;
    const auto size = file->file_size(unreadable);
    if (!unreadable && jobs::IsSha256(name)) {
      found[name] = static_cast<int64_t>(size);
    }
  }
}

std::map<std::string, int64_t> BlobFiles(const fs::path& folder) {
  std::map<std::string, int64_t> found;
  std::error_code error;
  fs::directory_iterator shard(folder, error);
  for (; !error && shard != fs::directory_iterator(); shard.increment(error)) {
    BlobsOfShard(shard->path(), found);
  }
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(
    Database& database, std::filesystem::path folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FsError(error, folder);
  fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return FsError(error, folder);
  const fs::path incoming = folder / "incoming";
  fs::remove_all(incoming, error);
  if (!error) fs::create_directory(incoming, error);
  if (error) return FsError(error, incoming);
  std::unique_ptr<BlobStore> store(new BlobStore(database, std::move(folder)));
  absl::Status matched = store->MatchRows();
  if (!matched.ok()) return matched;
  return store;
}

absl::Status BlobStore::MatchRows() {
  const std::map<std::string, int64_t> files = BlobFiles(folder_);
  Connection& c = database_.writer();
  return Caught("matching the blobs with their rows", [&] {
    absl::MutexLock lock(&c.mutex());
    SQLite::Transaction transaction(c.database(),
                                    SQLite::TransactionBehavior::IMMEDIATE);
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
    transaction.commit();
    return absl::OkStatus();
  });
}

bool BlobStore::Has(const std::string& sha256) {
  std::error_code ignored;
  return jobs::IsSha256(sha256) && fs::is_regular_file(PathOf(sha256), ignored);
}

std::string BlobStore::PathOf(const std::string& sha256) const {
  if (!jobs::IsSha256(sha256)) return "";
  return (folder_ / sha256.substr(0, 2) / sha256).string();
}

absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> BlobStore::Begin(
    const std::string& sha256, int64_t size_bytes) {
  if (!jobs::IsSha256(sha256)) {
    return absl::InvalidArgumentError(
        "sha256 must be 64 lower-case hexadecimal digits");
  }
  if (size_bytes < 0) {
    return absl::InvalidArgumentError("size_bytes must not be negative");
  }
  std::error_code error;
  const fs::space_info space = fs::space(folder_, error);
  if (!error && space.available < static_cast<uint64_t>(size_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the blob has ", size_bytes, " bytes, the disk of ",
                     folder_.string(), " has ", space.available, " free"));
  }
  static std::atomic<int64_t> counter{0};
  const fs::path temporary =
      folder_ / "incoming" / absl::StrCat(sha256, ".", ++counter);
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, temporary.string());
  return std::make_unique<Writer>(database_, temporary, fd, PathOf(sha256),
                                  size_bytes);
}

}  // namespace mpsd::store
