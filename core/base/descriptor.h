// SPDX-License-Identifier: Apache-2.0
// Open descriptors, and reads and writes of them that a signal does not cut
// short.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::base {

// An open descriptor with one owner, or none (-1).
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Errors name `path`. Each part that is written or read counts as work, so that
// watchers of WorkCount see a slow disk make progress.
absl::Status WriteAll(int fd, std::string_view bytes,
                      const std::filesystem::path& path);
// Everything up to the end; InvalidArgument if that is more than `max_bytes`.
absl::StatusOr<std::string> ReadAll(int fd, size_t max_bytes,
                                    const std::filesystem::path& path);
// `bytes` bytes of a file from `offset` on; fewer if it ends before.
absl::StatusOr<std::string> ReadAt(int fd, int64_t offset, size_t bytes,
                                   const std::filesystem::path& path);

}  // namespace mpsd::base
