// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_TEMPORARY_FOLDER_H_
#define MPSD_SERVER_SUPERVISOR_TEMPORARY_FOLDER_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace mpsd::supervisor {

// The folder for the temporary files of one worker, which only mpsd's user may
// enter (0700). Removed with all that the worker left in it. One thread at a
// time.
class TemporaryFolder {
 public:
  // Makes `parent` where it is missing, and in it the folder `name`, after
  // removing what has that name.
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Create(
      const std::filesystem::path& parent, const std::string& name);
  ~TemporaryFolder() { Remove(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void Remove();

  // Removes the folders that a daemon left which was killed. Links in them are
  // removed, and not followed.
  static void RemoveAll(const std::filesystem::path& parent);
  // Removes one of them likewise.
  static void RemoveLeft(const std::filesystem::path& folder) {
    TemporaryFolder(folder).Remove();
  }

 private:
  explicit TemporaryFolder(std::filesystem::path path)
      : path_(std::move(path)) {}

  const std::filesystem::path path_;
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_TEMPORARY_FOLDER_H_
