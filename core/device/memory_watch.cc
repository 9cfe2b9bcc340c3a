// SPDX-License-Identifier: Apache-2.0
#include "core/device/memory_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mpsd::device {
namespace {

// By kWarmUpSteps the device has compiled a graph for every shape; the smallest
// overhead of the later steps up to kBaselineSteps is the baseline.
constexpr int64_t kWarmUpSteps = 10;
constexpr int64_t kBaselineSteps = 20;
constexpr double kNearlyAll = 0.95;  // as the worker's high watermark
constexpr double kMuchGrowth = 0.1;  // share of the recommended memory

void Raise(std::optional<int64_t>& peak, const std::optional<int64_t>& now) {
  if (now) peak = std::max(peak.value_or(0), *now);
}

std::string MiB(int64_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

}  // namespace

std::optional<std::string> MemoryWatch::Observe(const Memory& memory) {
  ++steps_;
  Raise(summary_.peak_allocated, memory.peak_allocated);
  Raise(summary_.peak_driver, memory.driver_allocated);
  if (!memory.driver_allocated || !memory.current_allocated) {
    return std::nullopt;
  }
  const int64_t driver = *memory.driver_allocated;
  const int64_t overhead = driver - *memory.current_allocated;
  if (steps_ > kWarmUpSteps && steps_ <= kBaselineSteps) {
    baseline_ = std::min(baseline_.value_or(overhead), overhead);
  }
  if (baseline_) summary_.overhead_growth = overhead - *baseline_;
  if (!memory.recommended_max) return std::nullopt;
  const auto most = static_cast<double>(*memory.recommended_max);
  if (!told_full_ && static_cast<double>(driver) > kNearlyAll * most) {
    told_full_ = true;
    return absl::StrCat("the device holds ", MiB(driver), " of the ",
                        MiB(*memory.recommended_max),
                        " that the machine recommends: results may be lost; "
                        "lower training.per_device_train_batch_size or "
                        "max_length");
  }
  if (!told_growth_ && static_cast<double>(summary_.overhead_growth.value_or(
                           0)) > kMuchGrowth * most) {
    told_growth_ = true;
    return absl::StrCat("the driver's memory beyond tensors has grown by ",
                        MiB(*summary_.overhead_growth), " to ", MiB(overhead),
                        " since the first steps");
  }
  return std::nullopt;
}

}  // namespace mpsd::device
