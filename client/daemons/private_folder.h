// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_DAEMONS_PRIVATE_FOLDER_H_
#define MPSD_CLIENT_DAEMONS_PRIVATE_FOLDER_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::client {

// A folder of small files that only their owner may read (0700, files 0600).
// Links to the folder or to its files are not followed; the files' names
// contain no '/'. Errors name the file.
class PrivateFolder {
 public:
  // NotFound if it does not exist; FailedPrecondition for a link, for anything
  // but a folder, and for a folder of another account or open to others.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Open(
      const std::filesystem::path& path);
  // As Open, but first creates the folder and its parents.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Make(
      const std::filesystem::path& path);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The names of the files, sorted; without those that begin with a dot.
  absl::StatusOr<std::vector<std::string>> Names() const;
  // NotFound; FailedPrecondition for anything but a regular file, for a file of
  // another account or that others may read; InvalidArgument for a file larger
  // than `max_bytes`.
  absl::StatusOr<std::string> Read(const std::string& name,
                                   size_t max_bytes) const;
  // Replaces the whole file, durably. After an error the old file is untouched.
  absl::Status Write(const std::string& name, std::string_view bytes) const;
  // Also removes what a killed Write left of the file. OK if there is no such
  // file.
  absl::Status Remove(const std::string& name) const;

 private:
  PrivateFolder(std::filesystem::path path, int fd);
  absl::StatusOr<std::vector<std::string>> Entries() const;

  const std::filesystem::path path_;
  const int fd_;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_DAEMONS_PRIVATE_FOLDER_H_
