// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

// The machine that a job shares with other users: its power, heat, memory and
// use, and how to keep it awake. Needs neither torch nor privileges.

namespace mpsd::host {

enum class PowerSource { kMains, kBattery };

// In order of severity. macOS: the states of the notification
// com.apple.system.thermalpressurelevel. Linux: the highest trip point that a
// zone has passed, "passive", "hot" or "critical".
enum class Thermal { kNominal, kModerate, kHeavy, kTrapping, kSleeping };

// macOS: kern.memorystatus_vm_pressure_level. Linux: during at least one of the
// last ten seconds some process waited for memory (kWarn), or every process did
// (kCritical).
enum class MemoryPressure { kNormal, kWarn, kCritical };

// The machine's current state; values that it does not report are absent.
struct Reading {
  std::optional<PowerSource> power_source;
  std::optional<double> battery_ratio;  // charge, 0..1
  std::optional<bool> low_power_mode;
  std::optional<Thermal> thermal;
  std::optional<MemoryPressure> memory_pressure;
  std::optional<int64_t> swap_used_bytes;
  std::optional<double> gpu_utilization_ratio;  // by all processes, 0..1
  std::optional<int64_t> gpu_resets;            // since the machine started
  // iogpu.wired_limit_mb: what the GPU may wire; 0 is the system's own policy.
  std::optional<int64_t> wired_limit_bytes;
  std::optional<double> user_idle_seconds;  // since the last key or click

  bool operator==(const Reading&) const = default;
};

// While this object exists, the machine does not sleep when its user is idle. A
// machine with its lid closed still sleeps.
class Awake {
 public:
  virtual ~Awake() = default;
};

class Host {
 public:
  virtual ~Host() = default;
  // Takes milliseconds. Call from one thread at a time.
  virtual Reading Read() = 0;
  // The system shows `why` to its users. Null if the system has no such
  // request, or refuses it.
  virtual std::unique_ptr<Awake> KeepAwake(const std::string& why) = 0;
};

// This machine.
std::unique_ptr<Host> OpenHost();

// This machine's gpu_utilization_ratio alone, cheap enough to read at every
// step. Thread-safe.
std::optional<double> GpuUtilization();

// "mains", "battery"; "nominal", "moderate" …; "normal", "warn", "critical".
std::string_view Name(PowerSource source);
std::string_view Name(Thermal level);
std::string_view Name(MemoryPressure level);

// The inverse of Name; nullopt for an unknown word.
std::optional<PowerSource> PowerSourceNamed(std::string_view name);
std::optional<Thermal> ThermalNamed(std::string_view name);
std::optional<MemoryPressure> MemoryPressureNamed(std::string_view name);

// The levels by macOS's numbers, 0 to 4 for heat, 1, 2 and 4 for memory;
// nullopt for other numbers.
std::optional<Thermal> ThermalOfState(uint64_t state);
std::optional<MemoryPressure> MemoryPressureOfLevel(int level);

// A machine whose state a JSON file gives, so that tests of the real programs
// can pull the plug: {"power_source": "battery", "thermal": "heavy", …}, with
// Reading's member names and the levels' names. Each Read() reads the file
// again. A missing file reports nothing; a half-written one keeps the last
// complete content.
class FileHost final : public Host {
 public:
  explicit FileHost(std::filesystem::path path) : path_(std::move(path)) {}

  Reading Read() override;
  std::unique_ptr<Awake> KeepAwake(const std::string&) override {
    return nullptr;
  }

 private:
  const std::filesystem::path path_;
  Reading last_;
};

// The state that files in /proc and /sys below `root` ("/" on a real machine)
// report: power_supply, thermal zones with their trip points, platform_profile,
// memory pressure (PSI), swap, amdgpu's gpu_busy_percent. Only reads files:
// compiles and is tested on every system.
Reading ReadLinuxFiles(const std::filesystem::path& root);

}  // namespace mpsd::host
