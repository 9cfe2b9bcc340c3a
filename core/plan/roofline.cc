// SPDX-License-Identifier: Apache-2.0
#include "core/plan/roofline.h"

#include <algorithm>

namespace mpsd::plan {
namespace {

constexpr double kFusedAttentionShare = 0.4;

}  // namespace

double RooflineSeconds(const StepCost& cost, const Rates& rates, bool half,
                       const backend::Traits& traits) {
  const double rate = half ? rates.half_operations : rates.fp32_operations;
  const double attention =
      traits.attends_fused() ? rate * kFusedAttentionShare : rate;
  const double device =
      std::max(cost.products / rate, cost.product_bytes / rates.bytes) +
      cost.attention / attention + cost.other_bytes / rates.bytes;
  return std::max(device, cost.calls * rates.call_seconds);
}

}  // namespace mpsd::plan
