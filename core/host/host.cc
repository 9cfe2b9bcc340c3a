// SPDX-License-Identifier: Apache-2.0
#include "core/host/host.h"

#include <iterator>

#include "core/base/file.h"
#include "core/base/text.h"
#include "nlohmann/json.hpp"

namespace mpsd::host {
namespace {

template <typename E>
struct Word {
  E value;
  std::string_view name;
};
constexpr Word<PowerSource> kPowerSources[] = {
    {PowerSource::kMains, "mains"}, {PowerSource::kBattery, "battery"}};
constexpr Word<Thermal> kThermals[] = {{Thermal::kNominal, "nominal"},
                                       {Thermal::kModerate, "moderate"},
                                       {Thermal::kHeavy, "heavy"},
                                       {Thermal::kTrapping, "trapping"},
                                       {Thermal::kSleeping, "sleeping"}};
constexpr Word<MemoryPressure> kPressures[] = {
    {MemoryPressure::kNormal, "normal"},
    {MemoryPressure::kWarn, "warn"},
    {MemoryPressure::kCritical, "critical"}};

template <typename E, size_t N>
std::string_view NameIn(const Word<E> (&words)[N], E value) {
  for (const Word<E>& word : words) {
    if (word.value == value) return word.name;
  }
  return "unknown";
}

template <typename E, size_t N>
std::optional<E> Find(const Word<E> (&words)[N], std::string_view name) {
  for (const Word<E>& word : words) {
    if (word.name == name) return word.value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(PowerSource source) {
  return NameIn(kPowerSources, source);
}
std::string_view Name(Thermal level) { return NameIn(kThermals, level); }
std::string_view Name(MemoryPressure level) {
  return NameIn(kPressures, level);
}

std::optional<PowerSource> PowerSourceNamed(std::string_view name) {
  return Find(kPowerSources, name);
}
std::optional<Thermal> ThermalNamed(std::string_view name) {
  return Find(kThermals, name);
}
std::optional<MemoryPressure> MemoryPressureNamed(std::string_view name) {
  return Find(kPressures, name);
}

std::optional<Thermal> ThermalOfState(uint64_t state) {
  if (state >= std::size(kThermals)) return std::nullopt;
  return kThermals[state].value;
}

std::optional<MemoryPressure> MemoryPressureOfLevel(int level) {
  switch (level) {
    case 1:
      return MemoryPressure::kNormal;
    case 2:
      return MemoryPressure::kWarn;
    case 4:
      return MemoryPressure::kCritical;
    default:
      return std::nullopt;
  }
}

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
std::string Text(const json& object, const char* name) {
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
  reading.power_source = PowerSourceNamed(Text(object, "power_source"));
  reading.thermal = ThermalNamed(Text(object, "thermal"));
  reading.memory_pressure =
      MemoryPressureNamed(Text(object, "memory_pressure"));
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
