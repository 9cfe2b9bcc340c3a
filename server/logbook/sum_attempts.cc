// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/sum_attempts.h"

#include <algorithm>

namespace mpsd::logbook {
namespace {

constexpr size_t kShownAttempts = 32;

template <typename Names>
void Unite(const Names& names, Names* all) {
  for (const std::string& name : names) {
    if (std::find(all->begin(), all->end(), name) == all->end()) {
      all->Add()->assign(name);
    }
  }
}

void AddConditions(const v1::RunConditions& one, v1::RunConditions& all) {
  const int readings = all.readings() + one.readings();
  if (one.has_gpu_utilization_ratio()) {
    // Each attempt counts as its readings do.
    const double before = all.has_gpu_utilization_ratio() ? all.readings() : 0;
    const double weight = before + one.readings();
    if (weight > 0) {
      all.set_gpu_utilization_ratio(
          (all.gpu_utilization_ratio() * before +
           one.gpu_utilization_ratio() * one.readings()) /
          weight);
    }
  }
  all.set_readings(readings);
  Unite(one.power_sources(), all.mutable_power_sources());
  Unite(one.thermal_levels(), all.mutable_thermal_levels());
  Unite(one.memory_pressures(), all.mutable_memory_pressures());
  if (one.has_least_battery_ratio()) {
    all.set_least_battery_ratio(
        all.has_least_battery_ratio()
            ? std::min(all.least_battery_ratio(), one.least_battery_ratio())
            : one.least_battery_ratio());
  }
  if (one.has_low_power_mode()) {
    all.set_low_power_mode(all.low_power_mode() || one.low_power_mode());
  }
  if (one.has_first_swap_bytes() && !all.has_first_swap_bytes()) {
    all.set_first_swap_bytes(one.first_swap_bytes());
  }
  if (one.has_most_swap_bytes()) {
    all.set_most_swap_bytes(
        std::max(all.most_swap_bytes(), one.most_swap_bytes()));
  }
  if (one.has_user_active_seconds()) {
    all.set_user_active_seconds(all.user_active_seconds() +
                                one.user_active_seconds());
  }
  if (one.has_gpu_resets()) {
    all.set_gpu_resets(all.gpu_resets() + one.gpu_resets());
  }
}

void AddPauses(const v1::RunPauses& one, v1::RunPauses& all) {
  all.set_count(all.count() + one.count());
  all.set_seconds(all.seconds() + one.seconds());
  for (const auto& [reason, seconds] : one.seconds_by_reason()) {
    (*all.mutable_seconds_by_reason())[reason] += seconds;
  }
}

void AddDurations(const v1::RunDurations& one, v1::RunDurations& all) {
  if (one.has_queue_seconds() && !all.has_queue_seconds()) {
    all.set_queue_seconds(one.queue_seconds());
  }
  if (one.has_load_seconds()) all.set_load_seconds(one.load_seconds());
  if (one.has_first_step_seconds()) {
    all.set_first_step_seconds(one.first_step_seconds());
  }
  if (one.has_steady_step_seconds()) {
    all.set_steady_step_seconds(one.steady_step_seconds());
  }
  if (one.has_train_seconds()) {
    all.set_train_seconds(all.train_seconds() + one.train_seconds());
  }
  if (one.has_data_wait_seconds()) {
    all.set_data_wait_seconds(all.data_wait_seconds() +
                              one.data_wait_seconds());
  }
  if (one.has_evaluation_seconds()) {
    all.set_evaluation_seconds(all.evaluation_seconds() +
                               one.evaluation_seconds());
  }
  if (one.has_save_seconds()) {
    all.set_save_seconds(all.save_seconds() + one.save_seconds());
  }
}

}  // namespace

void SumAttempts(const std::vector<std::string>& attempts, v1::Record& record) {
  for (size_t i = 0; i < attempts.size(); ++i) {
    v1::RunAttempt attempt;
    if (!attempt.ParseFromString(attempts[i])) continue;
    if (attempt.exit_reason().empty()) attempt.set_exit_reason("Interrupted");
    AddConditions(attempt.conditions(), *record.mutable_conditions());
    AddPauses(attempt.pauses(), *record.mutable_pauses());
    AddDurations(attempt.durations(), *record.mutable_durations());
    if (attempt.has_peak_footprint_bytes()) {
      v1::RunMemory& memory = *record.mutable_memory();
      memory.set_peak_footprint_bytes(std::max(memory.peak_footprint_bytes(),
                                               attempt.peak_footprint_bytes()));
    }
    v1::RunEnvironment& environment = *record.mutable_environment();
    if (environment.device().empty()) environment.set_device(attempt.device());
    if (environment.torch_version().empty()) {
      environment.set_torch_version(attempt.torch_version());
    }
    if (environment.worker_version().empty()) {
      environment.set_worker_version(attempt.daemon_version());
    }
    if (i + kShownAttempts >= attempts.size()) {
      *record.add_attempts() = std::move(attempt);
    }
  }
}

}  // namespace mpsd::logbook
