// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_READ_ROOTS_H_
#define MPSD_CORE_BASE_READ_ROOTS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::base {

// Folders beneath which files may be read. What counts is where a file lies
// once every link on the way is followed, on both sides: a link that leads out
// of the folders is outside of them, and a folder may be named by a link. What
// does not exist lies where its name says, so that nothing outside tells
// whether it exists. Thread-safe.
class ReadRoots {
 public:
  // A folder that does not exist counts under its name.
  explicit ReadRoots(const std::vector<std::filesystem::path>& folders);

  // Whether `path` is one of the folders or lies beneath one.
  bool Contain(const std::filesystem::path& path) const;

  // A descriptor of a regular file beneath the folders, for reading; no link
  // put in the way meanwhile is followed. FailedPrecondition, in the same
  // words whatever is there, for one outside; InvalidArgument for what is no
  // regular file; NotFound and the like. All name the path.
  absl::StatusOr<int> Open(const std::filesystem::path& path) const;

 private:
  bool Lies(const std::filesystem::path& resolved) const;

  std::vector<std::filesystem::path> resolved_;
};

// From now on this process opens no file outside `roots` by way of ReadFile and
// MappedFile: what a job names cannot lead it elsewhere. Once, before the
// threads that read.
void LimitReads(ReadRoots roots);

// What LimitReads allows, else whatever the system does, with O_RDONLY and
// `flags`. `within`, where it is not null, must contain the file too.
absl::StatusOr<int> OpenToRead(const std::filesystem::path& path,
                               const ReadRoots* within = nullptr,
                               int flags = 0);

// As ReadFile of file.h, of a file that `within` contains too.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path,
                                     const ReadRoots& within);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_READ_ROOTS_H_
