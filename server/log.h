// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOG_H_
#define MPSD_SERVER_LOG_H_

#include <spdlog/logger.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config.h"

namespace mpsd {

// Writes to STATE/log/mpsd.log, which rotates, and to stderr unless the
// configuration says otherwise. The state folder must exist. Logging never
// waits for either: a thread each writes what a bounded queue holds, and says
// how many lines it had to drop. The last lines are written when the logger is
// destroyed, within some seconds. Thread-safe.
absl::StatusOr<std::shared_ptr<spdlog::logger>> OpenLog(const Config& config);

// Waits until what was logged is written, `timeout` at most; false where not.
bool FlushLog(const spdlog::logger& log, absl::Duration timeout);

}  // namespace mpsd

#endif  // MPSD_SERVER_LOG_H_
