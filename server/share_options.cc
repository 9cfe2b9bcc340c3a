// SPDX-License-Identifier: Apache-2.0
#include "server/share_options.h"

#include <CLI/CLI.hpp>

namespace mpsd {

ShareOptions::ShareOptions() {
  const Config defaults;
  half_life_hours_ = absl::ToDoubleHours(defaults.fair_share_half_life);
  margin_seconds_ = absl::ToDoubleSeconds(defaults.preemption.margin);
  least_run_seconds_ = absl::ToDoubleSeconds(defaults.preemption.least_run);
}

void ShareOptions::Declare(CLI::App& app) {
  app.add_option("--fair-share-half-life-hours", half_life_hours_,
                 "Among equal priorities the device goes to the owner who used "
                 "it least; past use counts half after this long; 0: first "
                 "come, first served")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
  app.add_flag("--preempt", preempt_,
               "A queued job takes the device from a running one of lower "
               "priority, which writes a checkpoint and resumes later");
  app.add_option("--preempt-margin-seconds", margin_seconds_,
                 "A running job with less training time left keeps the device")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--preempt-min-run-seconds", least_run_seconds_,
                 "An attempt keeps the device for at least this long")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
}

void ShareOptions::Finish(Config& config) const {
  config.fair_share_half_life = absl::Hours(half_life_hours_);
  config.preemption = {preempt_, absl::Seconds(margin_seconds_),
                       absl::Seconds(least_run_seconds_)};
}

}  // namespace mpsd
