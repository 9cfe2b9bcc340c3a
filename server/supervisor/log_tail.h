// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_LOG_TAIL_H_
#define MPSD_SERVER_SUPERVISOR_LOG_TAIL_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace mpsd::supervisor {

inline constexpr size_t kLogTailBytes = 4096;

// The last kLogTailBytes of the file at `path` after offset `start`, made
// printable (base::Printable, lines kept). A tail that had to be cut begins
// with a whole line. Empty for a file that cannot be read.
std::string ReadLogTail(const std::string& path, int64_t start);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_LOG_TAIL_H_
