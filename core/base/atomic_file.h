// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_ATOMIC_FILE_H_
#define MPSD_CORE_BASE_ATOMIC_FILE_H_

#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::base {

// A file that is written in pieces and appears under its name whole or not at
// all. Destroyed uncommitted, it leaves nothing behind; a process that is
// killed meanwhile leaves a file that IsUnfinished tells.
class AtomicFile {
 public:
  // NotFound, PermissionDenied, ResourceExhausted … naming the path.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(std::string_view bytes);
  // fsyncs, renames, fsyncs the folder: after OK the bytes survive a power cut,
  // after an error what had the name before is untouched.
  absl::Status Commit();
  // Without the fsyncs: a power cut may leave a file that is not whole.
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

// Beside `path`, of another name with every call.
std::filesystem::path TemporaryBeside(const std::filesystem::path& path);
// Whether TemporaryBeside makes such names.
bool IsUnfinished(const std::filesystem::path& path);

// fsync as far as the drive; `flags` as of open.
absl::Status SyncPath(const std::filesystem::path& path, int flags);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_ATOMIC_FILE_H_
