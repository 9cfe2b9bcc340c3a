// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_SMALL_FILE_H_
#define MPSD_CORE_BASE_SMALL_FILE_H_

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/read_roots.h"

namespace mpsd::base {

// Reads a whole file that somebody else chose. It must be a regular file,
// tested on the open descriptor, so that no pipe or device blocks or floods the
// reader, and at most `max_bytes` long even if it grows during the read:
// InvalidArgument otherwise. NotFound, PermissionDenied or Internal as
// ReadFile. Each error names the path. Opens nothing outside `within`, if not
// null, even if a link in the path changes meanwhile.
absl::StatusOr<std::string> ReadSmallFile(const std::filesystem::path& path,
                                          size_t max_bytes,
                                          const ReadRoots* within = nullptr);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_SMALL_FILE_H_
