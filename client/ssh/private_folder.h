// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_PRIVATE_FOLDER_H_
#define MPSD_CLIENT_SSH_PRIVATE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/ssh/descriptor.h"

namespace mpsd::ssh {

// A folder of mode 0700 for sockets, whose path is short enough for them: in
// XDG_RUNTIME_DIR, TMPDIR or /tmp, the first that fits. It goes with the
// object. What a program leaves that was killed, the next Make removes.
class PrivateFolder {
 public:
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Make();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  // Letters, digits and / . _ + - only, so that no syntax of ssh reads
  // anything else into it.
  const std::string& path() const { return path_; }

 private:
  PrivateFolder(std::string path, Descriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const Descriptor lock_;  // held as long as this program lives
};

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_PRIVATE_FOLDER_H_
