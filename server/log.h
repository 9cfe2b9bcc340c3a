// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOG_H_
#define MPSD_SERVER_LOG_H_

#include <spdlog/logger.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/config.h"

namespace mpsd {

// Writes to STATE/log/mpsd.log, which rotates, and to stderr unless the
// configuration says otherwise. The state folder must exist. Thread-safe.
absl::StatusOr<std::shared_ptr<spdlog::logger>> OpenLog(const Config& config);

}  // namespace mpsd

#endif  // MPSD_SERVER_LOG_H_
