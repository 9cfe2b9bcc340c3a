// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/host_state.h"

#include "server/rpc/convert.h"

namespace mpsd::rpc {
namespace {

v1::ThermalLevel ToProto(host::Thermal level) {
  switch (level) {
    case host::Thermal::kNominal:
      return v1::THERMAL_LEVEL_NOMINAL;
    case host::Thermal::kModerate:
      return v1::THERMAL_LEVEL_MODERATE;
    case host::Thermal::kHeavy:
      return v1::THERMAL_LEVEL_HEAVY;
    case host::Thermal::kTrapping:
      return v1::THERMAL_LEVEL_TRAPPING;
    case host::Thermal::kSleeping:
      return v1::THERMAL_LEVEL_SLEEPING;
  }
  return v1::THERMAL_LEVEL_UNSPECIFIED;
}

v1::MemoryPressure ToProto(host::MemoryPressure level) {
  switch (level) {
    case host::MemoryPressure::kNormal:
      return v1::MEMORY_PRESSURE_NORMAL;
    case host::MemoryPressure::kWarn:
      return v1::MEMORY_PRESSURE_WARN;
    case host::MemoryPressure::kCritical:
      return v1::MEMORY_PRESSURE_CRITICAL;
  }
  return v1::MEMORY_PRESSURE_UNSPECIFIED;
}

v1::PauseReason ToProto(jobs::PauseReason reason) {
  switch (reason) {
    case jobs::PauseReason::kBattery:
      return v1::PAUSE_REASON_BATTERY;
    case jobs::PauseReason::kThermal:
      return v1::PAUSE_REASON_THERMAL;
    case jobs::PauseReason::kMemoryPressure:
      return v1::PAUSE_REASON_MEMORY_PRESSURE;
    case jobs::PauseReason::kQuietHours:
      return v1::PAUSE_REASON_QUIET_HOURS;
    case jobs::PauseReason::kUserActive:
      return v1::PAUSE_REASON_USER_ACTIVE;
  }
  return v1::PAUSE_REASON_UNSPECIFIED;
}

}  // namespace

void ToProto(const host::Reading& r, v1::HostReading& out) {
  if (r.power_source) {
    out.set_on_battery(*r.power_source == host::PowerSource::kBattery);
  }
  if (r.battery_ratio) out.set_battery_ratio(*r.battery_ratio);
  if (r.low_power_mode) out.set_low_power_mode(*r.low_power_mode);
  if (r.thermal) out.set_thermal_level(ToProto(*r.thermal));
  if (r.memory_pressure) out.set_memory_pressure(ToProto(*r.memory_pressure));
  if (r.swap_used_bytes) out.set_swap_used_bytes(*r.swap_used_bytes);
  if (r.gpu_utilization_ratio) {
    out.set_gpu_utilization_ratio(*r.gpu_utilization_ratio);
  }
  if (r.gpu_resets) out.set_gpu_resets(*r.gpu_resets);
  if (r.wired_limit_bytes) out.set_wired_limit_bytes(*r.wired_limit_bytes);
  if (r.user_idle_seconds) out.set_user_idle_seconds(*r.user_idle_seconds);
}

void ToProto(const jobs::Pause& pause, v1::Pause& out) {
  for (jobs::PauseReason reason : pause.reasons) {
    out.add_reasons(ToProto(reason));
  }
  out.set_held(pause.held);
  if (pause.since) ToProto(*pause.since, *out.mutable_since());
}

}  // namespace mpsd::rpc
