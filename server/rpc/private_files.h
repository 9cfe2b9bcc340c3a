// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_PRIVATE_FILES_H_
#define MPSD_SERVER_RPC_PRIVATE_FILES_H_

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Files whose mode and owner are right from their first byte on.
namespace mpsd::pki {

inline constexpr mode_t kSecretMode = 0600;
inline constexpr mode_t kPublicMode = 0644;

// Writes `path`, which does not exist yet, and fsyncs it.
absl::Status WriteNew(const std::filesystem::path& path, std::string_view bytes,
                      mode_t mode);

// Replaces `path`, or makes it, in one step, and fsyncs it with its folder.
absl::Status Replace(const std::filesystem::path& path, std::string_view bytes,
                     mode_t mode);

// Makes a folder with mode 0700, and missing ones above it. OK if it exists.
absl::Status MakePrivateFolder(const std::filesystem::path& path);

// Removes what killed processes left in `folder` of the names that
// base::TemporaryBeside makes for `name`.
void RemoveUnfinished(const std::filesystem::path& folder,
                      std::string_view name);

// While this object exists, root acts as the owner of `folder`, or of the first
// existing folder above: files are the owner's, and a link planted by the owner
// gives no more than the owner's rights. Does nothing for other users. Only for
// a process of one thread.
class AsOwnerOf {
 public:
  explicit AsOwnerOf(std::filesystem::path folder);
  ~AsOwnerOf();
  AsOwnerOf(const AsOwnerOf&) = delete;
  AsOwnerOf& operator=(const AsOwnerOf&) = delete;

 private:
  bool changed_ = false;
};

// The folder, locked against other processes that lock it, until this object is
// destroyed or the process ends.
class FolderLock {
 public:
  // Unavailable if another process holds the lock.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(
      const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace mpsd::pki

#endif  // MPSD_SERVER_RPC_PRIVATE_FILES_H_
