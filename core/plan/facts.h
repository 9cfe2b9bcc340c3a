// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/report/runbook.h"

namespace mpsd::plan {

// The rates that a device attains in training, from any source.
struct Rates {
  double fp32_operations = 0;  // of large matrix products, per second
  double half_operations = 0;  // the same in bfloat16
  double bytes = 0;            // of memory, read and written, per second
  double call_seconds = 0;     // of the host, for one call
  std::string source;          // human-readable
};

// What runs of a job's shape took on this device.
struct Pace {
  int32_t runs = 0;
  double step_seconds = 0;       // 0: unknown
  double tokens_per_second = 0;  // without padding; 0: unknown
};

// What a probe of the job measured, in steps of the data's longest rows.
struct ProbeFigures {
  double step_seconds = 0;  // the median; 0: unknown
  int64_t peak_bytes = 0;   // without evaluations; 0: unknown
  bool out_of_memory = false;
};

// What a plan needs to know in addition to the job and its files. A field that
// is absent from the file is unknown: 0, empty or nullopt.
struct Facts {
  // Only the job's data are checked, next to a job that may be training.
  bool check = false;
  // Folders below which files may be read; empty: all.
  std::vector<std::string> read_roots;
  std::vector<std::string> closed_roots;  // as of wire::Start
  std::string device;  // meant by "auto": "cpu", "cuda", "mps"
  std::string chip;    // "Apple M2 Max", "NVIDIA H200"
  int64_t gpu_cores = 0;
  int64_t cpu_cores = 0;
  int64_t memory_bytes = 0;        // of the machine
  int64_t memory_limit_bytes = 0;  // that the device may use
  int64_t disk_free_bytes = 0;
  runbook::Thresholds thresholds;
  std::optional<Rates> rates;
  std::optional<Pace> pace;
  std::optional<ProbeFigures> probe;
};

// Parses the JSON object that mpsd writes for mpsd-worker --plan: the members
// are those of Facts, Rates, Pace and (`probe`) of the message ProbeResult.
// Unknown members are ignored. InvalidArgument names a member of a wrong type
// or a number below 0.
absl::StatusOr<Facts> ParseFacts(std::string_view json);

}  // namespace mpsd::plan
