// SPDX-License-Identifier: Apache-2.0
// The state folder: its lock, what its files take, the group that may pass
// through it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/collector.h"

namespace mpsd {

// The locked state folder: no second mpsd uses the folder while this object
// exists. The locks are on the folder itself, which remains locked if its files
// are removed, and on STATE/lock, which contains the pid of the holder; the
// system releases both however the process ends.
class StateDir {
 public:
  // Creates the folder (0700) if it is missing. Unavailable, naming the other
  // mpsd, if the folder is locked; FailedPrecondition if other accounts may
  // write the folder.
  static absl::StatusOr<std::unique_ptr<StateDir>> Open(
      const std::filesystem::path& path);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Whether the folder at path() is still the locked one, not another that was
  // moved to its place, or made below a lost mount.
  bool IsInPlace() const;

 private:
  StateDir(std::filesystem::path path, int folder)
      : path_(std::move(path)), folder_(folder) {}
  const std::filesystem::path path_;
  const int folder_;
  int file_ = -1;
};

// The disk space of the files in a state folder, in bytes, by kind:
//
//   checkpoints   jobs/ID/out/checkpoints/
//   results       the rest of jobs/ID/out/
//   uploads       blobs/; the links to blobs in jobs/ID/inputs/ and in models/
//                 are not counted
//   database      mpsd.db with its -wal and -shm
//   logs          log/, jobs/ID/log
//   other         everything else, as folders that are being deleted,
//                 without merges/
//
// Each kind is there, also with 0 bytes.
struct StateUsage {
  std::map<std::string, int64_t> by_kind;
  // jobs/ID/ without its inputs, by id.
  std::map<std::string, jobs::FolderBytes> by_job;

  int64_t TotalBytes() const;
};

// Follows no link and skips what it may not read, so that no job can spoil the
// measurement. A file that appears or disappears meanwhile may be counted.
// Cancelled soon after `stop` became true; other errors, which are the disk's,
// name the folder.
absl::StatusOr<StateUsage> MeasureState(const std::filesystem::path& state_dir,
                                        const std::atomic<bool>& stop);

// The number of a group, by its name or its number. NotFound for a name that no
// group has; Unavailable if the name service fails.
absl::StatusOr<gid_t> GroupNamed(const std::string& name);

// Gives a folder to the group, whose members may from then on open the files in
// it that they know by name and have access to; they may not list it. The
// errors of base::ErrnoStatus, such as PermissionDenied if this account is not
// a member of the group.
absl::Status LetThrough(const std::filesystem::path& folder, gid_t group);

}  // namespace mpsd
