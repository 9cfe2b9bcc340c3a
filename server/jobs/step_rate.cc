// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/step_rate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mpsd::jobs {

namespace {

void FillShares(Progress& progress) {
  if (progress.padded_tokens.value_or(0) > 0) {
    progress.padding_ratio =
        1 - static_cast<double>(progress.tokens) /
                static_cast<double>(*progress.padded_tokens);
  }
  if (progress.data_wait_seconds && progress.seconds > 0) {
    progress.data_wait_ratio = *progress.data_wait_seconds / progress.seconds;
  }
}

}  // namespace

void StepRate::Apply(Progress& progress) {
  FillShares(progress);
  const double weight = started_ ? kWeight : 1;
  started_ = true;
  tokens_ += weight * (progress.tokens - tokens_);
  seconds_ += weight * (progress.seconds - seconds_);
  progress.tokens_per_second = seconds_ > 0 ? tokens_ / seconds_ : 0;
  const int64_t left =
      std::max<int64_t>(progress.total_steps - progress.step, 0);
  progress.eta_seconds = left * seconds_;
}

std::optional<absl::Duration> TimeLeft(const Job& job) {
  if (!job.progress) return std::nullopt;
  const Progress& last = *job.progress;
  const int64_t left = last.total_steps - last.step;
  const double step_seconds =
      left > 0 ? last.eta_seconds / static_cast<double>(left) : last.seconds;
  const int64_t steps =
      std::max<int64_t>(last.total_steps - job.durable_step, 0);
  const double seconds = static_cast<double>(steps) * step_seconds;
  if (!std::isfinite(seconds)) return std::nullopt;
  return absl::Seconds(std::max(seconds, 0.0));
}

}  // namespace mpsd::jobs
