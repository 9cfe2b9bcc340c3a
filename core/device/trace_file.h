// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_TRACE_FILE_H_
#define MPSD_CORE_DEVICE_TRACE_FILE_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::profile {

// The largest trace that is kept, bytes of JSON: browsers fail beyond this.
inline constexpr int64_t kTraceBytes = int64_t{256} << 20;

// Compresses the trace at `json` into `gzip`, which appears complete or not at
// all, and always removes `json`. Drops the path that Kineto writes after the
// events ("traceName"). Returns the bytes of `gzip`. ResourceExhausted for a
// trace over `limit` bytes, Internal for one that does not end as JSON does
// (the disk was full when torch wrote it), else errors of the file system.
absl::StatusOr<int64_t> PackTrace(const std::filesystem::path& json,
                                  const std::filesystem::path& gzip,
                                  int64_t limit = kTraceBytes);

}  // namespace mpsd::profile

#endif  // MPSD_CORE_DEVICE_TRACE_FILE_H_
