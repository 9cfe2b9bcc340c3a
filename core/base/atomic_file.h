// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_ATOMIC_FILE_H_
#define MPSD_CORE_BASE_ATOMIC_FILE_H_

#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::base {

// A file that is written in pieces and appears under its name complete or not
// at all. Destroyed without Commit, it is removed; a process killed before then
// leaves a file that IsUnfinished recognises.
class AtomicFile {
 public:
  // NotFound, PermissionDenied, ResourceExhausted …, naming the path.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(std::string_view bytes);
  // Fsyncs the file, renames it and fsyncs the folder: after OK the bytes
  // survive a power cut; after an error an existing file of that name is
  // untouched.
  absl::Status Commit();
  // Like Commit without the fsyncs: a power cut may leave an incomplete file.
  absl::Status CommitUnsynced();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary,
             int fd);
  void Close();

  const std::filesystem::path path_;
  const std::filesystem::path temporary_;
  int fd_;  // -1: closed
  bool committed_ = false;
};

// A path in the same folder as `path`, with a new name at every call.
std::filesystem::path TemporaryBeside(const std::filesystem::path& path);
// Whether the file's name is one that TemporaryBeside makes.
bool IsUnfinished(const std::filesystem::path& path);

// Flushes the file or folder to the drive itself, not only to the drive's
// cache; `flags` are those of open().
absl::Status SyncPath(const std::filesystem::path& path, int flags);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_ATOMIC_FILE_H_
