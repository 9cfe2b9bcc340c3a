// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/host/host.h"

namespace mpsd::host {
namespace fs = std::filesystem;
namespace {

// The percentage of the last ten seconds that counts as pressure.
constexpr double kPressing = 10;

// The file's first line; nullopt for a missing file.
std::optional<std::string> Line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<int64_t> Number(const fs::path& path) {
  const std::optional<std::string> line = Line(path);
  int64_t value = 0;
  if (!line || !absl::SimpleAtoi(*line, &value)) return std::nullopt;
  return value;
}

std::vector<fs::path> Entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// A mouse's battery has the scope "Device".
void ReadPower(const fs::path& root, Reading& reading) {
  bool mains = false, discharging = false, battery = false;
  for (const fs::path& supply : Entries(root / "sys/class/power_supply")) {
    const std::string type = Line(supply / "type").value_or("");
    if (type == "Mains") {
      mains = mains || Number(supply / "online") == 1;
      reading.power_source = PowerSource::kMains;
    } else if (type == "Battery" && Line(supply / "scope") != "Device") {
      battery = true;
      discharging =
          discharging || Line(supply / "status").value_or("") == "Discharging";
      if (auto percent = Number(supply / "capacity")) {
        reading.battery_ratio = static_cast<double>(*percent) / 100;
      }
    }
  }
  if (battery) {
    reading.power_source =
        discharging && !mains ? PowerSource::kBattery : PowerSource::kMains;
  }
  if (auto profile = Line(root / "sys/firmware/acpi/platform_profile")) {
    reading.low_power_mode = *profile == "low-power";
  }
}

std::optional<Thermal> LevelOf(const std::string& trip_type) {
  if (trip_type == "passive") return Thermal::kModerate;
  if (trip_type == "hot") return Thermal::kHeavy;
  if (trip_type == "critical") return Thermal::kTrapping;
  return std::nullopt;
}

void ReadThermal(const fs::path& root, Reading& reading) {
  for (const fs::path& zone : Entries(root / "sys/class/thermal")) {
    const std::optional<int64_t> now = Number(zone / "temp");
    for (int i = 0; now; ++i) {
      const std::string trip = absl::StrCat("trip_point_", i);
      const std::optional<std::string> type = Line(zone / (trip + "_type"));
      if (!type) break;
      const std::optional<Thermal> level = LevelOf(*type);
      const std::optional<int64_t> limit = Number(zone / (trip + "_temp"));
      if (!level || !limit || *limit <= 0) continue;
      const Thermal here = *now >= *limit ? *level : Thermal::kNominal;
      reading.thermal =
          std::max(here, reading.thermal.value_or(Thermal::kNominal));
    }
  }
}

// The value of avg10 in the line that begins with `kind`: "some avg10=0.00
// avg60=…".
std::optional<double> Pressure(const fs::path& path, const std::string& kind) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string head = kind + " avg10=";
    if (line.rfind(head, 0) != 0) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(head.size()), ' ');
    double percent = 0;
    if (absl::SimpleAtod(words[0], &percent)) return percent;
  }
  return std::nullopt;
}

void ReadMemory(const fs::path& root, Reading& reading) {
  const fs::path pressure = root / "proc/pressure/memory";
  if (auto some = Pressure(pressure, "some")) {
    const bool all = Pressure(pressure, "full").value_or(0) >= kPressing;
    reading.memory_pressure = all                  ? MemoryPressure::kCritical
                              : *some >= kPressing ? MemoryPressure::kWarn
                                                   : MemoryPressure::kNormal;
  }
  std::ifstream file(root / "proc/meminfo");
  std::optional<int64_t> total, free;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kilobytes = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[1], &kilobytes)) continue;
    if (words[0] == "SwapTotal:") total = kilobytes;
    if (words[0] == "SwapFree:") free = kilobytes;
  }
  if (total && free) reading.swap_used_bytes = (*total - *free) * 1024;
}

void ReadGpu(const fs::path& root, Reading& reading) {
  for (const fs::path& card : Entries(root / "sys/class/drm")) {
    if (auto percent = Number(card / "device/gpu_busy_percent")) {
      reading.gpu_utilization_ratio =
          std::max(reading.gpu_utilization_ratio.value_or(0),
                   static_cast<double>(*percent) / 100);
    }
  }
}

}  // namespace

Reading ReadLinuxFiles(const fs::path& root) {
  Reading reading;
  ReadPower(root, reading);
  ReadThermal(root, reading);
  ReadMemory(root, reading);
  ReadGpu(root, reading);
  return reading;
}

}  // namespace mpsd::host
