// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/check.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "server/store/connection.h"

namespace mpsd::store {

namespace fs = std::filesystem;
namespace {

// The amount that one CatchUp reads: some milliseconds of work.
constexpr int64_t kSlice = 16 << 20;
constexpr int64_t kPiece = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobWriter::Begin(
    Database& database, absl::Mutex& names, Plan plan) {
  const fs::path& path =
      plan.part == nullptr ? plan.temporary : plan.part->path();
  const int flags = plan.part == nullptr ? O_CREAT | O_EXCL : O_NOFOLLOW;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  return absl::WrapUnique(new BlobWriter(database, names, std::move(plan), fd));
}

BlobWriter::BlobWriter(Database& database, absl::Mutex& names, Plan plan,
                       int fd)
    : database_(database),
      names_(names),
      plan_(std::move(plan)),
      fd_(fd),
      written_(plan_.offset_bytes) {}

BlobWriter::~BlobWriter() {
  close(fd_);
  if (plan_.part == nullptr && !committed_) unlink(path().c_str());
}

const fs::path& BlobWriter::path() const {
  return plan_.part == nullptr ? plan_.temporary : plan_.part->path();
}

absl::Status BlobWriter::Drop(absl::Status status) {
  if (plan_.part != nullptr) plan_.part->Drop();
  return status;
}

absl::StatusOr<bool> BlobWriter::CatchUp() {
  std::string piece;
  const int64_t end = std::min(hashed_ + kSlice, plan_.offset_bytes);
  while (hashed_ < end) {
    piece.resize(std::min(kPiece, end - hashed_));
    const ssize_t n = pread(fd_, piece.data(), piece.size(), hashed_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Drop(base::ErrnoStatus(errno, path().string()));
    if (n == 0) {
      return Drop(
          absl::DataLossError(absl::StrCat(path().string(),
                                           " has become shorter: send the blob "
                                           "from its beginning")));
    }
    hash_.Update({piece.data(), static_cast<size_t>(n)});
    hashed_ += n;
  }
  return hashed_ < plan_.offset_bytes;
}

absl::Status BlobWriter::Append(std::string_view bytes) {
  base::Check(!committed_, "Append comes before Commit");
  base::Check(hashed_ == written_, "CatchUp comes before Append");
  if (bytes.size() > static_cast<uint64_t>(plan_.size_bytes - written_)) {
    return Drop(absl::InvalidArgumentError(
        absl::StrCat("the blob was announced with ", plan_.size_bytes,
                     " bytes; more came")));
  }
  if (plan_.part != nullptr) {
    RETURN_IF_ERROR(plan_.part->BeginWrite());
  }
  int64_t written = 0;
  const absl::Status status = Write(bytes, written);
  if (plan_.part != nullptr) plan_.part->EndWrite(written);
  // On a full disk, frees the bytes: others need them more.
  return status.ok() ? status : Drop(status);
}

absl::Status BlobWriter::Write(std::string_view bytes, int64_t& written) {
  hash_.Update(bytes);
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), written_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path().string());
    bytes.remove_prefix(n);
    plan_.room->Used(n);
    written += n;
    written_ += n;
    hashed_ += n;
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Commit() {
  base::Check(!committed_, "Commit is called once");
  // From here on no other upload takes over the part.
  if (plan_.part != nullptr) {
    RETURN_IF_ERROR(plan_.part->BeginWrite());
  }
  RETURN_IF_ERROR(Verify());
  // The file comes before its row: MatchRows repairs a missing row at the next
  // start, but could not restore a missing file.
  RETURN_IF_ERROR(Place());
  Connection& c = database_.writer();
  return CatchSqlite("recording a blob", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    RecordBlob(c, plan_.final_path.filename().string(), plan_.size_bytes);
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status BlobWriter::Verify() {
  if (written_ != plan_.size_bytes) {
    // The bytes may be right so far, so a part is kept.
    return absl::InvalidArgumentError(
        absl::StrCat("the blob was announced with ", plan_.size_bytes,
                     " bytes; ", written_, " came"));
  }
  const std::string hash = hash_.FinishHex();
  if (hash == plan_.final_path.filename().string()) return absl::OkStatus();
  return Drop(absl::InvalidArgumentError(
      absl::StrCat("the blob's SHA-256 is ", hash, ", announced was ",
                   plan_.final_path.filename().string())));
}

absl::Status BlobWriter::Place() {
  if (fchmod(fd_, 0400) != 0) return base::ErrnoStatus(errno, path().string());
  absl::Status status = base::SyncPath(path(), O_RDONLY);
  std::set<fs::path> changed;
  if (status.ok()) {
    status = PlaceBlob(path(), plan_.final_path, names_, changed);
  }
  if (!status.ok()) return status;
  committed_ = true;
  if (plan_.part != nullptr) plan_.part->Placed();
  return base::SyncAll({changed.begin(), changed.end()});
}

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
    // Without the lock Collect could check an old blob of this name and then
    // unlink the new one.
    absl::MutexLock lock(&names);
    // An existing blob has links, which show who needs it: a new file in its
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
  ASSIGN_OR_RETURN(const auto room,
                   room_.Reserve(static_cast<int64_t>(bytes.size())));
  static std::atomic<int64_t> counter{0};
  const fs::path path = incoming_ / absl::StrCat(sha256, ".b", ++counter);
  // The name is recorded before the write, so that the destructor removes a
  // file that a full disk cut short.
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
  // The files are flushed before any rename: the name of a blob guarantees its
  // bytes, even after a power cut.
  RETURN_IF_ERROR(base::SyncAll(written));
  std::set<fs::path> changed;
  for (const auto& [sha256, staged] : staged_) {
    const fs::path final_path = store_.PathOf(sha256);
    base::Check(!final_path.empty(), "what Add took is named by a hash");
    RETURN_IF_ERROR(PlaceBlob(staged.path, final_path, names_, changed));
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
