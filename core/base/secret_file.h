// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_SECRET_FILE_H_
#define MPSD_CORE_BASE_SECRET_FILE_H_

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace mpsd::base {

// Reads a file that holds a key or a token. FailedPrecondition if anyone but
// its owner and group may read it, or anyone but its owner may write it;
// otherwise the errors of ReadSmallFile.
absl::StatusOr<std::string> ReadSecretFile(const std::filesystem::path& path,
                                           size_t max_bytes);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_SECRET_FILE_H_
