// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_STUDY_OPTIONS_H_
#define MPSD_CORE_REPORT_STUDY_OPTIONS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/host/traits.h"

// The options of studies: the messages <Kind>Options of proto/mpsd/v1, parsed
// from their JSON, with their defaults and bounds. mpsd validates submissions
// with these functions and the worker parses its options with them, so that no
// job is queued with options that its worker rejects. Errors are
// InvalidArgument and begin with the field.
namespace mpsd::runbook {

inline constexpr int64_t kMostStudySteps = 1000;  // measured or warm-up steps
inline constexpr int64_t kMostStudyBatch = 65536;
inline constexpr double kMostStudyBytes = 1e15;  // for a memory limit
inline constexpr int64_t kMostSmokeRows = 1'000'000;

struct ProbeOptions {
  int64_t warmup_steps = 2, steps = 8;
};
absl::StatusOr<ProbeOptions> ProbeOptionsFromJson(const nlohmann::json& json);

struct BatchSweepOptions {
  int64_t first_batch = 1;
  int64_t max_batch = 0;  // 0: the rows of the data
  int64_t steps = 6, warmup_steps = 2;
  double memory_limit_bytes = 0;  // 0: by the threshold sweep.memory_share
};
absl::StatusOr<BatchSweepOptions> BatchSweepOptionsFromJson(
    const nlohmann::json& json);

struct DeviceComparisonOptions {
  int64_t steps = 20, warmup_steps = 3;
  std::vector<backend::Choice> devices;  // none, or two
};
absl::StatusOr<DeviceComparisonOptions> DeviceComparisonOptionsFromJson(
    const nlohmann::json& json);

struct ProfileOptions {
  std::optional<int64_t> steps;  // absent: the threshold profile.steps
  int64_t warm_up_steps = 10;
};
absl::StatusOr<ProfileOptions> ProfileOptionsFromJson(
    const nlohmann::json& json);

struct SmokeOptions {
  int64_t rows = 0;  // 0: enough for four steps
};
absl::StatusOr<SmokeOptions> SmokeOptionsFromJson(const nlohmann::json& json);

// Parses the options, including thresholds, of the study with this name in the
// message Study: "probe" … InvalidArgument also for another name.
absl::Status CheckStudyOptions(std::string_view study,
                               const nlohmann::json& options);

}  // namespace mpsd::runbook

#endif  // MPSD_CORE_REPORT_STUDY_OPTIONS_H_
