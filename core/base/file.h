// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_FILE_H_
#define MPSD_CORE_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::base {

// A read-only mapping of a whole file. The bytes stay valid while the object
// lives.
class MappedFile {
 public:
  // NotFound, PermissionDenied or Internal, naming the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(
      const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

  // Tells the kernel that [offset, offset + length) will not be read again, so
  // that its pages stop counting against this process.
  void DropPages(size_t offset, size_t length) const;

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}
  const char* data_;
  size_t size_;
};

// The whole file. NotFound, PermissionDenied or Internal, naming the path.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path);

// Replaces `path` as a whole: written next to it, fsynced, renamed, the folder
// fsynced. After OK the new bytes survive a power cut; after an error the old
// file is untouched.
absl::Status WriteFileAtomic(const std::filesystem::path& path,
                             std::string_view bytes);

// Fsyncs every file below `dir` and `dir` itself.
absl::Status SyncTree(const std::filesystem::path& dir);

// A folder that appears under its final name complete or not at all. Write
// below staging(); Commit() fsyncs the tree and renames it to the final path,
// replacing an existing folder. Destroyed without Commit, the object removes
// the staged files.
class StagedFolder {
 public:
  static absl::StatusOr<StagedFolder> Create(std::filesystem::path final_path);
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  const std::filesystem::path& staging() const { return staging_; }
  absl::Status Commit();

 private:
  StagedFolder(std::filesystem::path final_path, std::filesystem::path staging)
      : final_(std::move(final_path)), staging_(std::move(staging)) {}
  std::filesystem::path final_;
  std::filesystem::path staging_;  // empty once committed or moved from
};

// An absl::Status for errno `error`: its code, with "<what>: <strerror>".
absl::Status ErrnoStatus(int error, std::string_view what);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_FILE_H_
