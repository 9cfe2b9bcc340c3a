// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_STUDY_PROFILE_SAMPLES_H_
#define MPSD_TESTS_CORE_STUDY_PROFILE_SAMPLES_H_

#include <cstdint>

#include "core/study/profile_facts.h"

namespace mpsd::study {

inline constexpr int64_t kMilli = 1'000'000;  // ns

// The facts of a sound job on a device of its own: 4 steps of warm-up, 10 plain
// ones of 0.1 s, and 20 under the profiler of 0.11 s; four layers that are
// alike.
inline ProfileFacts SoundFacts() {
  ProfileFacts facts;
  facts.device = "mps";
  facts.gradients = "explicit";
  facts.device_is_apart = true;
  const auto add = [&](StepKind kind, double seconds) {
    report::Progress progress;
    progress.step = static_cast<int64_t>(facts.steps.size()) + 1;
    progress.seconds = seconds;
    progress.epoch = static_cast<double>(progress.step) / 30;
    progress.data_wait_seconds = 0.001;
    progress.padded_tokens = 1000;
    progress.memory.current_allocated_bytes = 1000;
    progress.memory.peak_allocated_bytes = 1500;
    progress.device_utilization_ratio = 0.9;
    facts.steps.push_back({kind, progress});
  };
  add(StepKind::kWarmUp, 2);
  for (int i = 0; i < 3; ++i) add(StepKind::kWarmUp, 0.2);
  for (int i = 0; i < 10; ++i) {
    add(StepKind::kPlain, 0.1);
    add(StepKind::kProfiled, 0.11);
    add(StepKind::kProfiled, 0.11);
  }
  profile::Tally& tally = facts.tally;
  tally.steps = 20;
  tally.step_ns = tally.steps * 110 * kMilli;
  tally.operators["aten::mm"] = {2000, tally.steps * 80 * kMilli, 0};
  tally.operators["aten::mul"] = {4000, tally.steps * 10 * kMilli, 0};
  using profile::Phase;
  tally.blocks[{"attention", Phase::kForward}] = {80, tally.steps * 30 * kMilli,
                                                  tally.steps * 28 * kMilli, 0};
  tally.blocks[{"attention", Phase::kBackward}] = {
      80, tally.steps * 60 * kMilli, tally.steps * 55 * kMilli, 0};
  tally.blocks[{"read back", Phase::kForward}] = {20, tally.steps * 15 * kMilli,
                                                  tally.steps * 15 * kMilli, 0};
  tally.blocks[{"step", Phase::kForward}] = {20, tally.steps * 5 * kMilli, 0,
                                             0};
  for (int64_t layer = 0; layer < 4; ++layer) {
    profile::LayerCost& cost = tally.layers[layer];
    cost.ns[0] = tally.steps * 7 * kMilli;
    cost.ns[1] = tally.steps * 15 * kMilli;
  }
  tally.gaps = {40, tally.steps * 5 * kMilli, 3 * kMilli, "aten::mm", "mlp"};
  facts.data_seconds = {0.01, 0.012, 0.011};
  facts.forward_seconds = {0.03};
  return facts;
}

}  // namespace mpsd::study

#endif  // MPSD_TESTS_CORE_STUDY_PROFILE_SAMPLES_H_
