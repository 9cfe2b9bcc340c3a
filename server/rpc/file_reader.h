// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_FILE_READER_H_
#define MPSD_SERVER_RPC_FILE_READER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::rpc {

// An open regular file, read from its start to the size it had when opened.
class FileReader {
 public:
  // Never through a symbolic link. Aborted when it is not there (any more).
  static absl::StatusOr<std::unique_ptr<FileReader>> Open(
      const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  int64_t left_bytes() const { return size_bytes_ - offset_; }

  // Of the whole file; does not move the reader.
  absl::StatusOr<std::string> Sha256() const;
  // The next bytes, exactly min(max, left_bytes()). Aborted when the file
  // became shorter.
  absl::StatusOr<std::string> Read(size_t max);

 private:
  FileReader(std::filesystem::path path, int fd, int64_t size_bytes)
      : path_(std::move(path)), fd_(fd), size_bytes_(size_bytes) {}
  absl::StatusOr<std::string> ReadAt(int64_t offset, size_t max) const;

  const std::filesystem::path path_;
  const int fd_;
  const int64_t size_bytes_;
  int64_t offset_ = 0;
};

// The regular files below `folder`, relative to it, sorted; links left out.
// Aborted when it is not there (any more).
absl::StatusOr<std::vector<std::filesystem::path>> FilesBelow(
    const std::filesystem::path& folder);

// Whether `path` lies in `folder`, links resolved.
bool IsInside(const std::filesystem::path& path,
              const std::filesystem::path& folder);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_FILE_READER_H_
