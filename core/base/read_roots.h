// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_READ_ROOTS_H_
#define MPSD_CORE_BASE_READ_ROOTS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::base {

// Folders whose files may be read. Symbolic links are resolved, in the folders'
// paths and in a file's path, before they are compared: a link that leads out
// of the folders is outside, and a folder may be given as a link. A path that
// does not exist is compared by its name, so that the answer never reveals
// whether a file outside exists. Thread-safe.
class ReadRoots {
 public:
  // A folder that does not exist is compared by its name.
  explicit ReadRoots(const std::vector<std::filesystem::path>& folders);

  // Whether `path` is one of the folders or is below one.
  bool Contain(const std::filesystem::path& path) const;

  // Opens a regular file below the folders for reading; a link put into the
  // path meanwhile is not followed. FailedPrecondition for a path outside, with
  // the same text whether a file exists there or not; InvalidArgument for
  // anything but a regular file; NotFound and the like. Every error names the
  // path.
  absl::StatusOr<int> Open(const std::filesystem::path& path) const;

 private:
  bool Lies(const std::filesystem::path& resolved) const;

  std::vector<std::filesystem::path> resolved_;
};

// From now on ReadFile and MappedFile open no file outside `roots` in this
// process: a path named by a job cannot lead elsewhere. Call it once, before
// any reading thread starts.
void LimitReads(ReadRoots roots);

// Opens a file that LimitReads allows (any file if LimitReads was not called)
// with O_RDONLY and `flags`. `within`, if not null, must contain the file too.
absl::StatusOr<int> OpenToRead(const std::filesystem::path& path,
                               const ReadRoots* within = nullptr,
                               int flags = 0);

// Whether LimitReads allows the path, such as a folder to be listed; otherwise
// FailedPrecondition with the text of ReadRoots::Open.
absl::Status CheckMayRead(const std::filesystem::path& path);

// Like ReadFile of file.h, for a file that `within` must contain too.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path,
                                     const ReadRoots& within);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_READ_ROOTS_H_
