// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "server/queued_sink.h"
#include "server/stderr_sink.h"

namespace mpsd {
namespace {

// A line is a few hundred bytes.
constexpr size_t kQueuedLines = 4096;
constexpr absl::Duration kStderrPatience = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<std::shared_ptr<spdlog::logger>> OpenLog(const Config& config) {
  const std::string path = config.state_dir / "log" / "mpsd.log";
  try {
    auto file = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        path, config.log_max_bytes, config.log_files);
    auto logger = std::make_shared<spdlog::logger>(
        "mpsd", std::make_shared<QueuedSink>(file, kQueuedLines));
    if (config.log_stderr) {
      logger->sinks().push_back(std::make_shared<QueuedSink>(
          std::make_shared<StderrSink>(STDERR_FILENO, kStderrPatience),
          kQueuedLines));
    }
    logger->set_level(spdlog::level::from_str(config.log_level));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    return logger;
  } catch (const spdlog::spdlog_ex& e) {
    return absl::UnavailableError(
        absl::StrCat("cannot write the log ", path, ": ", e.what()));
  }
}

bool FlushLog(const spdlog::logger& log, absl::Duration timeout) {
  const auto& sinks = log.sinks();
  return std::all_of(sinks.begin(), sinks.end(), [&](const auto& sink) {
    const auto* queued = dynamic_cast<const QueuedSink*>(sink.get());
    return queued == nullptr || queued->Drain(timeout);
  });
}

std::function<void(const std::string&)> LineTo(
    std::shared_ptr<spdlog::logger> log, spdlog::level::level_enum level) {
  return [log = std::move(log), level](const std::string& line) {
    log->log(level, base::Printable(line));
  };
}

}  // namespace mpsd
