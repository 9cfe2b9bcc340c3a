// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_FOLDER_BYTES_H_
#define MPSD_SERVER_MODELS_FOLDER_BYTES_H_

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>

namespace mpsd::models {

// The bytes of the regular files below `folder` that have at most `most_links`
// hard links; symbolic links count nothing. What cannot be read counts nothing.
inline int64_t FolderBytes(
    const std::filesystem::path& folder,
    uint64_t most_links = std::numeric_limits<uint64_t>::max()) {
  int64_t bytes = 0;
  std::error_code error;
  std::filesystem::recursive_directory_iterator file(folder, error);
  for (; !error && file != std::filesystem::recursive_directory_iterator();
       file.increment(error)) {
    struct stat info;
    if (lstat(file->path().c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_nlink <= most_links) {
      bytes += info.st_size;
    }
  }
  return bytes;
}

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_FOLDER_BYTES_H_
