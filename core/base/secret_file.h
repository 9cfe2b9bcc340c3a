// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_SECRET_FILE_H_
#define MPSD_CORE_BASE_SECRET_FILE_H_

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace mpsd::base {

// Reads a file that holds a key or a token. FailedPrecondition where others
// than its owner and group may read it, or others than its owner may write it;
// else the errors of ReadSmallFile.
absl::StatusOr<std::string> ReadSecretFile(const std::filesystem::path& path,
                                           size_t max_bytes);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_SECRET_FILE_H_
