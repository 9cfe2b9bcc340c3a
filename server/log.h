// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOG_H_
#define MPSD_SERVER_LOG_H_

#include <spdlog/logger.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config.h"

namespace mpsd {

// Writes to STATE/log/mpsd.log, which rotates, and to stderr unless the
// configuration turns that off. The state folder must exist. Logging never
// waits for the file or for stderr: each has a bounded queue and a thread that
// writes the queued lines and reports how many lines were dropped. Destroying
// the logger writes the last lines, within some seconds. Thread-safe.
absl::StatusOr<std::shared_ptr<spdlog::logger>> OpenLog(const Config& config);

// Waits until every earlier line is written, for at most `timeout`; false if
// some line is not.
bool FlushLog(const spdlog::logger& log, absl::Duration timeout);

// Writes lines to the log, escaped, so that a job's text never starts a new log
// line.
std::function<void(const std::string&)> LineTo(
    std::shared_ptr<spdlog::logger> log,
    spdlog::level::level_enum level = spdlog::level::info);

}  // namespace mpsd

#endif  // MPSD_SERVER_LOG_H_
