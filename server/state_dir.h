// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STATE_DIR_H_
#define MPSD_SERVER_STATE_DIR_H_

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mpsd {

// The locked state folder: no second mpsd uses the folder while this object
// exists. The lock is on STATE/lock, which contains the pid of the holder; the
// system releases the lock however the process ends.
class StateDir {
 public:
  // Creates the folder (0700) if it is missing. Unavailable, naming the other
  // mpsd, if the folder is locked.
  static absl::StatusOr<std::unique_ptr<StateDir>> Open(
      const std::filesystem::path& path);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  StateDir(std::filesystem::path path, int fd)
      : path_(std::move(path)), fd_(fd) {}
  const std::filesystem::path path_;
  const int fd_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_STATE_DIR_H_
