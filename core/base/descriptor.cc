// SPDX-License-Identifier: Apache-2.0
#include "core/base/descriptor.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"

namespace mpsd::base {

absl::Status WriteAll(int fd, std::string_view bytes,
                      const std::filesystem::path& path) {
  constexpr size_t kPart = 16 << 20;
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), std::min(bytes.size(), kPart));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path.string());
    bytes.remove_prefix(n);
    CountWork();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAll(int fd, size_t max_bytes,
                                    const std::filesystem::path& path) {
  std::string bytes;
  char piece[1 << 16];
  while (true) {
    const ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path.string());
    CountWork();
    if (n == 0) return bytes;
    if (static_cast<size_t>(n) > max_bytes - bytes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), ": longer than ", max_bytes,
                       " bytes, the limit for this kind of file"));
    }
    bytes.append(piece, n);
  }
}

absl::StatusOr<std::string> ReadAt(int fd, int64_t offset, size_t bytes,
                                   const std::filesystem::path& path) {
  std::string text(bytes, '\0');
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(fd, text.data() + got, bytes - got,
                            offset + static_cast<int64_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path.string());
    if (n == 0) break;
    got += n;
  }
  text.resize(got);
  return text;
}

}  // namespace mpsd::base
