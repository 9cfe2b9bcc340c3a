// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_READ_ROOTS_H_
#define MPSD_CORE_BASE_READ_ROOTS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::base {

// Folders beneath which files may be read. Links are followed in the folders'
// paths and in a file's path before they are compared: a link that leads out of
// the folders is outside of them, and a folder may be named by a link. A path
// that does not exist counts as its name says, so that the answer never tells
// whether something outside exists. Thread-safe.
class ReadRoots {
 public:
  // A folder that does not exist counts under its name.
  explicit ReadRoots(const std::vector<std::filesystem::path>& folders);

  // Whether `path` is one of the folders or lies beneath one.
  bool Contain(const std::filesystem::path& path) const;

  // A descriptor of a regular file beneath the folders, for reading; a link
  // that somebody puts into the path meanwhile is not followed.
  // FailedPrecondition for a path outside, in the same words whether a file
  // exists there or not; InvalidArgument for anything but a regular file;
  // NotFound and the like. Every error names the path.
  absl::StatusOr<int> Open(const std::filesystem::path& path) const;

 private:
  bool Lies(const std::filesystem::path& resolved) const;

  std::vector<std::filesystem::path> resolved_;
};

// From now on this process opens no file outside `roots` by way of ReadFile and
// MappedFile: a path that a job names cannot lead it elsewhere. Call it before
// any thread that reads starts, and a single time.
void LimitReads(ReadRoots roots);

// Opens a file that LimitReads allows, or any file where LimitReads was not
// called, with O_RDONLY and `flags`. `within`, where it is not null, must
// contain the file too.
absl::StatusOr<int> OpenToRead(const std::filesystem::path& path,
                               const ReadRoots* within = nullptr,
                               int flags = 0);

// Whether LimitReads allows the path, a folder that is to be listed, say;
// FailedPrecondition in the words of ReadRoots::Open where it does not.
absl::Status CheckMayRead(const std::filesystem::path& path);

// As ReadFile of file.h, for a file that `within` contains too.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path,
                                     const ReadRoots& within);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_READ_ROOTS_H_
