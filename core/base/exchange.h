// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_EXCHANGE_H_
#define MPSD_CORE_BASE_EXCHANGE_H_

#include <filesystem>

#include "absl/status/status.h"

namespace mpsd::base {

// Swaps the files or folders at `a` and `b` atomically: at any moment each path
// names one of the two. Both must exist, on one file system. Where the file
// system has no such swap, this renames three times through a temporary name
// next to `b`; a process killed between the renames loses no bytes, but leaves
// one of the two under the temporary name. Fsyncs nothing.
absl::Status ExchangePaths(const std::filesystem::path& a,
                           const std::filesystem::path& b);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_EXCHANGE_H_
