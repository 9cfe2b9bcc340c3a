// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/sync.h"
#include "server/store/blob_batch.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace fs = std::filesystem;
namespace {

// What one CatchUp reads: some milliseconds of work.
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
    if (absl::Status s = plan_.part->BeginWrite(); !s.ok()) return s;
  }
  int64_t written = 0;
  const absl::Status status = Write(bytes, written);
  if (plan_.part != nullptr) plan_.part->EndWrite(written);
  // A full disk gets the bytes back: others need them more.
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
  // From here on no other upload takes the part over.
  if (plan_.part != nullptr) {
    if (absl::Status s = plan_.part->BeginWrite(); !s.ok()) return s;
  }
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
    RecordBlob(c, plan_.final_path.filename().string(), plan_.size_bytes);
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status BlobWriter::Verify() {
  if (written_ != plan_.size_bytes) {
    // The bytes may be right as far as they go, so a part is kept.
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

}  // namespace mpsd::store
