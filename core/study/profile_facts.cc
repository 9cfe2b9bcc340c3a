// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_facts.h"

#include <algorithm>
#include <numeric>

namespace mpsd::study {
namespace {

constexpr size_t kFewestForGrowth = 10;

}  // namespace

double Mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

double ProfileFacts::WorkSeconds(StepKind kind) const {
  std::vector<double> seconds;
  for (const ProfiledStep& step : steps) {
    if (step.kind == kind) seconds.push_back(step.work());
  }
  return Median(std::move(seconds));
}

double ProfileFacts::DataWaitSeconds() const {
  std::vector<double> seconds;
  for (const ProfiledStep& step : steps) {
    if (step.kind == StepKind::kProfiled) seconds.push_back(step.data_wait());
  }
  return Mean(seconds);
}

double ProfileFacts::StepSeconds() const {
  return WorkSeconds(StepKind::kPlain) + DataWaitSeconds();
}

double ProfileFacts::Overhead() const {
  const double plain = WorkSeconds(StepKind::kPlain);
  return plain > 0 ? WorkSeconds(StepKind::kProfiled) / plain - 1 : 0;
}

const report::Counts& ProfileFacts::fallbacks() const {
  static const report::Counts none;
  return steps.empty() ? none : steps.back().progress.cpu_fallback_ops;
}

std::optional<double> ProfileFacts::MemoryGrowth() const {
  std::vector<double> bytes;
  for (const ProfiledStep& step : steps) {
    if (step.kind == StepKind::kWarmUp) continue;
    if (const auto& held = step.progress.memory.current_allocated_bytes) {
      bytes.push_back(static_cast<double>(*held));
    }
  }
  if (bytes.size() < kFewestForGrowth) return std::nullopt;
  const auto part = static_cast<std::ptrdiff_t>(bytes.size() / 5);
  const double before = Mean({bytes.begin(), bytes.begin() + part});
  const double after = Mean({bytes.end() - part, bytes.end()});
  if (before <= 0) return std::nullopt;
  return after / before - 1;
}

std::optional<double> ProfileFacts::Utilization() const {
  std::vector<double> ratios;
  for (const ProfiledStep& step : steps) {
    if (step.kind == StepKind::kWarmUp) continue;
    if (const auto& ratio = step.progress.device_utilization_ratio) {
      ratios.push_back(*ratio);
    }
  }
  if (ratios.empty()) return std::nullopt;
  return Mean(ratios);
}

}  // namespace mpsd::study
