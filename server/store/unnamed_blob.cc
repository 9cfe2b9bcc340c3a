// SPDX-License-Identifier: Apache-2.0
#include "server/store/unnamed_blob.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <utility>

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

// What is reserved of the disk at a time, once more comes than was announced.
constexpr int64_t kMoreRoom = 16 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<UnnamedBlob>> UnnamedBlob::Begin(
    const Place& place, int64_t expected_bytes) {
  base::CheckAtMost(0, expected_bytes, "bytes of a blob");
  static std::atomic<int64_t> counter{0};
  const fs::path path = place.incoming / absl::StrCat("unnamed.", ++counter);
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  std::unique_ptr<UnnamedBlob> blob(new UnnamedBlob(place, path, fd));
  if (absl::Status room = blob->Reserve(expected_bytes); !room.ok()) {
    return room;
  }
  return blob;
}

UnnamedBlob::~UnnamedBlob() {
  close(fd_);
  unlink(path_.c_str());  // fails where the file has its name
}

absl::Status UnnamedBlob::Reserve(int64_t bytes) {
  absl::StatusOr<std::unique_ptr<DiskRoom::Reservation>> room =
      place_.room.Reserve(bytes);
  if (!room.ok()) return room.status();
  rooms_.push_back(*std::move(room));
  reserved_ = bytes;
  return absl::OkStatus();
}

absl::Status UnnamedBlob::Append(std::string_view bytes) {
  base::Check(!committed_, "Append comes before Commit");
  hash_.Update(bytes);
  while (!bytes.empty()) {
    if (reserved_ == 0) {
      const int64_t more =
          std::max<int64_t>(kMoreRoom, static_cast<int64_t>(bytes.size()));
      if (absl::Status room = Reserve(more); !room.ok()) return room;
    }
    const size_t most = std::min(bytes.size(), static_cast<size_t>(reserved_));
    const ssize_t n = write(fd_, bytes.data(), most);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path_.string());
    bytes.remove_prefix(n);
    rooms_.back()->Used(n);
    reserved_ -= n;
    written_ += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnnamedBlob::Commit() {
  base::Check(!std::exchange(committed_, true), "Commit is called once");
  std::string sha256 = hash_.FinishHex();
  if (absl::Status stored = Store(sha256); !stored.ok()) return stored;
  return sha256;
}

absl::Status UnnamedBlob::Store(const std::string& sha256) {
  if (fchmod(fd_, 0400) != 0) return base::ErrnoStatus(errno, path_.string());
  absl::Status status = base::SyncPath(path_, O_RDONLY);
  std::set<fs::path> changed;
  if (status.ok()) {
    status =
        PlaceBlob(path_, place_.store.PathOf(sha256), place_.names, changed);
  }
  if (status.ok()) status = base::SyncAll({changed.begin(), changed.end()});
  if (!status.ok()) return status;
  Connection& c = place_.database.writer();
  return CatchSqlite("recording a blob", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    RecordBlob(c, sha256, written_);
    transaction.Commit();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::store
