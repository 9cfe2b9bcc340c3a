// SPDX-License-Identifier: Apache-2.0
#include "core/host/file_host.h"

#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "nlohmann/json.hpp"

namespace mpsd::host {
namespace {

using nlohmann::json;

template <typename T>
void Take(const json& object, const char* name, std::optional<T>& field) {
  const auto member = object.find(name);
  if (member == object.end()) return;
  if constexpr (std::is_same_v<T, bool>) {
    if (member->is_boolean()) field = member->get<bool>();
  } else {
    if (member->is_number()) field = member->get<T>();
  }
}

// The string member `name`, turned into an enum by one of the …Named functions.
std::string Word(const json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string()
             ? member->get<std::string>()
             : "";
}

}  // namespace

Reading FileHost::Read() {
  auto text = base::ReadFile(path_);
  if (!text.ok()) return last_ = Reading();
  const json object = base::ParseTree<json>(*text);
  if (!object.is_object()) return last_;
  Reading reading;
  reading.power_source = PowerSourceNamed(Word(object, "power_source"));
  reading.thermal = ThermalNamed(Word(object, "thermal"));
  reading.memory_pressure =
      MemoryPressureNamed(Word(object, "memory_pressure"));
  Take(object, "battery_ratio", reading.battery_ratio);
  Take(object, "low_power_mode", reading.low_power_mode);
  Take(object, "swap_used_bytes", reading.swap_used_bytes);
  Take(object, "gpu_utilization_ratio", reading.gpu_utilization_ratio);
  Take(object, "gpu_resets", reading.gpu_resets);
  Take(object, "wired_limit_bytes", reading.wired_limit_bytes);
  Take(object, "user_idle_seconds", reading.user_idle_seconds);
  return last_ = reading;
}

}  // namespace mpsd::host
