// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_SMALL_FILE_H_
#define MPSD_CORE_BASE_SMALL_FILE_H_

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/read_roots.h"

namespace mpsd::base {

// Reads a whole file that somebody else chose: it must be a regular one, tested
// on the open descriptor, so that neither a pipe nor a device holds or floods
// the reader; and no longer than `max_bytes`, also where it grows during the
// read. InvalidArgument otherwise; NotFound, PermissionDenied or Internal as
// ReadFile. Each error names the path. Opens nothing outside of `within`, where
// that is not null, whatever becomes of a link in the path meanwhile.
absl::StatusOr<std::string> ReadSmallFile(const std::filesystem::path& path,
                                          size_t max_bytes,
                                          const ReadRoots* within = nullptr);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_SMALL_FILE_H_
