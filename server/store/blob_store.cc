// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
#include "core/base/sha256.h"
#include "core/base/sync.h"
#include "server/store/blob_batch.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace fs = std::filesystem;
namespace {

absl::Status FsError(const std::error_code& error, const fs::path& path) {
  return base::ErrnoStatus(error.value(), path.string());
}

class Writer : public jobs::BlobWriter {
 public:
  using Reservation = std::unique_ptr<DiskRoom::Reservation>;

  // `names`: the store's lock of that name.
  Writer(Database& database, absl::Mutex& names, Reservation room,
         fs::path temporary, int fd, fs::path final_path, int64_t size_bytes)
      : database_(database),
        names_(names),
        room_(std::move(room)),
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
    base::Check(!committed_, "Append comes before Commit");
    hash_.Update(bytes);
    written_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t n = write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return base::ErrnoStatus(errno, temporary_.string());
      bytes.remove_prefix(n);
      room_->Used(n);
    }
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    base::Check(!committed_, "Commit is called once");
    absl::Status verified = Verify();
    if (!verified.ok()) return verified;
    // The file comes before its row: MatchRows mends a missing row at the next
    // start, but could not bring back a missing file.
    absl::Status placed = Place();
    if (!placed.ok()) return placed;
    Connection& c = database_.writer();
    return CatchSqlite("recording a blob", [&] {
      absl::MutexLock lock(&c.mutex());
      c.SetDurability(Connection::Durability::kPowerCut);
      Transaction transaction(c);
      RecordBlob(c, final_.filename().string(), size_bytes_);
      transaction.Commit();
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
    absl::Status status = base::SyncPath(temporary_, O_RDONLY);
    std::set<fs::path> changed;
    if (status.ok()) status = PlaceBlob(temporary_, final_, names_, changed);
    if (!status.ok()) return status;
    committed_ = true;
    return base::SyncAll({changed.begin(), changed.end()});
  }

  Database& database_;
  absl::Mutex& names_;
  const Reservation room_;
  const fs::path temporary_;
  const fs::path final_;  // …/ab/<sha256>
  const int64_t size_bytes_;
  const int fd_;
  base::Sha256 hash_;
  int64_t written_ = 0;
  bool committed_ = false;
};

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

absl::Time ChangeTime(const struct stat& info) {
#ifdef __APPLE__
  return absl::TimeFromTimespec(info.st_ctimespec);
#else
  return absl::TimeFromTimespec(info.st_ctim);
#endif
}

bool IsUnused(const fs::path& blob, absl::Time before) {
  struct stat info;
  return lstat(blob.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_nlink == 1 && ChangeTime(info) < before;
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
  std::unique_ptr<BlobStore> store(
      new BlobStore(database, std::move(folder), min_free_bytes));
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

absl::StatusOr<int64_t> BlobStore::Collect(const fs::path& jobs_dir,
                                           absl::Duration grace) {
  if (!CanLink(folder_, jobs_dir)) return 0;
  int64_t freed = 0;
  std::vector<std::string> gone;
  for (const auto& [sha256, size_bytes] : BlobFiles(folder_)) {
    const std::string path = PathOf(sha256);
    absl::MutexLock lock(&names_);
    if (!IsUnused(path, absl::Now() - grace)) continue;
    if (unlink(path.c_str()) != 0) continue;
    freed += size_bytes;
    gone.push_back(sha256);
  }
  absl::Status forgotten = Forget(gone);
  if (!forgotten.ok()) return forgotten;
  return freed;
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
  if (!jobs::IsSha256(sha256)) {
    return absl::InvalidArgumentError(
        "sha256 must be 64 lower-case hexadecimal digits");
  }
  if (size_bytes < 0) {
    return absl::InvalidArgumentError("size_bytes must not be negative");
  }
  absl::StatusOr<std::unique_ptr<DiskRoom::Reservation>> room =
      room_.Reserve(size_bytes);
  if (!room.ok()) return room.status();
  static std::atomic<int64_t> counter{0};
  const fs::path temporary =
      folder_ / "incoming" / absl::StrCat(sha256, ".", ++counter);
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, temporary.string());
  return std::make_unique<Writer>(database_, names_, *std::move(room),
                                  temporary, fd, PathOf(sha256), size_bytes);
}

}  // namespace mpsd::store
