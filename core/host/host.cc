// SPDX-License-Identifier: Apache-2.0
#include "core/host/host.h"

#include <iterator>

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

}  // namespace mpsd::host
