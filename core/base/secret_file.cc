// SPDX-License-Identifier: Apache-2.0
#include "core/base/secret_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/small_file.h"

namespace mpsd::base {

absl::StatusOr<std::string> ReadSecretFile(const std::filesystem::path& path,
                                           size_t max_bytes) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, path.string());
  }
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path.string(), ": other users may read or change this secret; run: ",
        "chmod 600 ", path.string()));
  }
  return ReadSmallFile(path, max_bytes);
}

}  // namespace mpsd::base
