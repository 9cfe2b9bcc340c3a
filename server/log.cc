// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace mpsd {

absl::StatusOr<std::shared_ptr<spdlog::logger>> OpenLog(const Config& config) {
  const std::string path = config.state_dir / "log" / "mpsd.log";
  try {
    auto file = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        path, config.log_max_bytes, config.log_files);
    auto logger = std::make_shared<spdlog::logger>("mpsd", file);
    if (config.log_stderr) {
      logger->sinks().push_back(
          std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    }
    logger->set_level(spdlog::level::from_str(config.log_level));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    logger->flush_on(spdlog::level::debug);
    return logger;
  } catch (const spdlog::spdlog_ex& e) {
    return absl::UnavailableError(
        absl::StrCat("cannot write the log ", path, ": ", e.what()));
  }
}

}  // namespace mpsd
