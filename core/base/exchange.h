// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_EXCHANGE_H_
#define MPSD_CORE_BASE_EXCHANGE_H_

#include <filesystem>

#include "absl/status/status.h"

namespace mpsd::base {

// What `a` names and what `b` names change places, at one moment: whoever looks
// finds one of them at either path. Both exist, on one file system. A file
// system that cannot do that renames three times, by a name beside `b`; a
// process that is killed between them leaves all bytes, one under that name.
// Fsyncs nothing.
absl::Status ExchangePaths(const std::filesystem::path& a,
                           const std::filesystem::path& b);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_EXCHANGE_H_
