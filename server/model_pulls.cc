// SPDX-License-Identifier: Apache-2.0
#include "server/model_pulls.h"

#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/printable.h"
#include "core/spec/hub_cache.h"

namespace mpsd {
namespace {

const char* ResultOf(hub::PullEnd end) {
  switch (end) {
    case hub::PullEnd::kSucceeded:
      return "succeeded";
    case hub::PullEnd::kFailed:
      return "failed";
    case hub::PullEnd::kCancelled:
      break;
  }
  return "cancelled";
}

}  // namespace

std::unique_ptr<hub::Puller> MakePuller(
    const Config& config, models::PullStore& store,
    const std::shared_ptr<prometheus::DaemonMetrics>& metrics,
    std::shared_ptr<spdlog::logger> log) {
  hub::Puller::Options options;
  options.settings = config.hub;
  options.cache = spec::HubCacheFolder();
  options.min_free_bytes = config.min_free_bytes;
  // The hub's words never begin a line of the log.
  options.log = [log = std::move(log)](const std::string& line) {
    log->info("{}", base::Printable(line));
  };
  options.count = [metrics](hub::PullEnd end) {
    metrics->PullEnded(ResultOf(end));
  };
  options.running = [metrics](int pulls) { metrics->PullsRun(pulls); };
  options.received = [metrics](int64_t bytes) { metrics->PullReceived(bytes); };
  return std::make_unique<hub::Puller>(std::move(options), store,
                                       base::Clock::Real());
}

}  // namespace mpsd
