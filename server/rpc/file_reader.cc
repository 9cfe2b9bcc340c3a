// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::rpc {
namespace fs = std::filesystem;
namespace {

constexpr size_t kHashStep = 1 << 20;

absl::Status FileGone(const fs::path& path, const std::string& why) {
  return absl::AbortedError(absl::StrCat(
      path.string(), " changed while it was read (", why, "); ask again"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileReader>> FileReader::Open(
    const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && (errno == ENOENT || errno == ELOOP)) {
    return FileGone(path, "it is no longer a file");
  }
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  struct stat info;
  // Checks the open file: the path may name another file by now.
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return FileGone(path, "it is no longer a file");
  }
  return std::unique_ptr<FileReader>(new FileReader(path, fd, info.st_size));
}

FileReader::~FileReader() { close(fd_); }

absl::StatusOr<bool> FileReader::HashNext(int64_t max) {
  const int64_t end = std::min(size_bytes_, hashed_ + max);
  while (hashed_ < end) {
    ASSIGN_OR_RETURN(
        std::string bytes,
        ReadAt(hashed_, std::min<int64_t>(kHashStep, end - hashed_)));
    hash_.Update(bytes);
    hashed_ += static_cast<int64_t>(bytes.size());
  }
  if (hashed_ < size_bytes_) return false;
  if (sha256_.empty()) sha256_ = hash_.FinishHex();
  return true;
}

absl::StatusOr<std::string> FileReader::Read(size_t max) {
  absl::StatusOr<std::string> bytes = ReadAt(offset_, max);
  if (bytes.ok()) offset_ += static_cast<int64_t>(bytes->size());
  return bytes;
}

absl::StatusOr<std::string> FileReader::ReadAt(int64_t offset,
                                               size_t max) const {
  std::string bytes(std::min<int64_t>(max, size_bytes_ - offset), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = pread(fd_, bytes.data() + done, bytes.size() - done,
                            offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path_.string());
    if (n == 0) return FileGone(path_, "it got shorter");
    done += n;
  }
  return bytes;
}

absl::StatusOr<std::vector<fs::path>> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code vanished;
    const fs::file_status status = entry->symlink_status(vanished);
    if (!vanished && status.type() == fs::file_type::regular) {
      files.push_back(entry->path().lexically_relative(folder));
    }
  }
  if (error) return FileGone(folder, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

bool IsInside(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  if (error) return false;
  const fs::path outer = fs::weakly_canonical(folder, error);
  if (error || outer.empty()) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end())
             .first == outer.end();
}

}  // namespace mpsd::rpc
