// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODEL_PULLS_H_
#define MPSD_SERVER_MODEL_PULLS_H_

#include <spdlog/logger.h>

#include <memory>

#include "server/config.h"
#include "server/hub/puller.h"
#include "server/models/pull_store.h"
#include "server/prometheus/daemon_metrics.h"

namespace mpsd {

// The puller of the configuration's hub, into the Hugging Face cache of this
// process' environment. The puller shares ownership of `metrics` and `log`;
// `store` must outlive the puller.
std::unique_ptr<hub::Puller> MakePuller(
    const Config& config, models::PullStore& store,
    const std::shared_ptr<prometheus::DaemonMetrics>& metrics,
    std::shared_ptr<spdlog::logger> log);

}  // namespace mpsd

#endif  // MPSD_SERVER_MODEL_PULLS_H_
