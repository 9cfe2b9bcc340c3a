// SPDX-License-Identifier: Apache-2.0
#include "server/hub/cache_part.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"

namespace mpsd::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 1 << 20;

// A descriptor of the lock, held; the kernel gives it back when the descriptor
// is closed, however the process ends.
absl::StatusOr<int> Lock(const fs::path& path) {
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int error = errno;
  close(fd);
  if (error != EWOULDBLOCK) return base::ErrnoStatus(error, path.string());
  return absl::AbortedError("another program fetches the same file");
}

// A link in the part's place would have another file written.
absl::StatusOr<int> OpenPart(const fs::path& path) {
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
           0644);
  struct stat about;
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) return fd;
  close(fd);
  return absl::FailedPreconditionError(
      absl::StrCat(path.string(), ": is no file; remove it"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CachePart>> CachePart::Open(const fs::path& blob,
                                                           const fs::path& lock,
                                                           const HubFile& file,
                                                           const Stop& stop) {
  const absl::StatusOr<int> held = Lock(lock);
  if (!held.ok()) return held.status();
  fs::path path = blob;
  path += ".incomplete";
  const absl::StatusOr<int> fd = OpenPart(path);
  if (!fd.ok()) {
    close(*held);
    return fd.status();
  }
  std::unique_ptr<CachePart> part(new CachePart(blob, file, *held, *fd));
  if (absl::Status s = part->ReadBack(stop); !s.ok()) return s;
  return part;
}

CachePart::CachePart(fs::path blob, const HubFile& file, int lock, int fd)
    : blob_(std::move(blob)), file_(file), lock_(lock), fd_(fd) {}

CachePart::~CachePart() {
  close(fd_);
  close(lock_);
}

fs::path CachePart::Path() const {
  fs::path path = blob_;
  path += ".incomplete";
  return path;
}

// Hashes what an earlier pull left.
absl::Status CachePart::ReadBack(const Stop& stop) {
  hash_ = std::make_unique<ContentHash>(file_);
  size_ = 0;
  std::vector<char> bytes(kReadBytes);
  while (true) {
    if (stop && stop()) return absl::CancelledError("the pull ends");
    const ssize_t got = pread(fd_, bytes.data(), bytes.size(), size_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::ErrnoStatus(errno, Path().string());
    if (got == 0) break;
    hash_->Update({bytes.data(), static_cast<size_t>(got)});
    size_ += got;
    // Longer than the file: some other file's, or broken.
    if (size_ > file_.size) return Begin(0);
  }
  return absl::OkStatus();
}

absl::Status CachePart::Begin(int64_t offset) {
  if (offset == size_) return absl::OkStatus();
  if (ftruncate(fd_, 0) != 0) return base::ErrnoStatus(errno, Path().string());
  hash_ = std::make_unique<ContentHash>(file_);
  size_ = 0;
  return absl::OkStatus();
}

absl::Status CachePart::Append(std::string_view bytes) {
  if (bytes.size() > static_cast<uint64_t>(file_.size - size_)) {
    return absl::DataLossError(absl::StrCat("the hub sends more than the ",
                                            file_.size, " bytes that it said ",
                                            file_.path, " has"));
  }
  hash_->Update(bytes);
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(fd_, bytes.data(), bytes.size(), size_);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int error = errno;
      // The hash is ahead of the file now.
      const absl::Status read = ReadBack({});
      return read.ok() ? base::ErrnoStatus(error, Path().string()) : read;
    }
    size_ += wrote;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

absl::Status CachePart::Finish() {
  const bool whole = size_ == file_.size;
  if (!whole || hash_->FinishHex() != file_.hash) {
    unlink(Path().c_str());
    return absl::DataLossError(
        absl::StrCat("what the hub sent of ", file_.path, " has another ",
                     whole ? "hash" : "size", " than the hub says"));
  }
  if (fsync(fd_) != 0 || rename(Path().c_str(), blob_.c_str()) != 0) {
    return base::ErrnoStatus(errno, blob_.string());
  }
  return base::SyncPath(blob_.parent_path(), O_RDONLY | O_DIRECTORY);
}

}  // namespace mpsd::hub
