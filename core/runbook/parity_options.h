// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_RUNBOOK_PARITY_OPTIONS_H_
#define MPSD_CORE_RUNBOOK_PARITY_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/backend/traits.h"
#include "core/runbook/parity_trace.h"

namespace mpsd::runbook {

inline constexpr int64_t kParitySteps = 10;        // where none are asked for
inline constexpr int64_t kMostParitySteps = 5000;  // result.json has each
inline constexpr size_t kParityNameBytes = 256;

// ParityOptions of proto/mpsd/v1/parity.proto.
struct ParityOptions {
  int64_t steps = kParitySteps;
  std::optional<backend::Choice> device;  // absent: the job's own
  // At most one of them is there.
  std::optional<backend::Choice> reference_device;
  std::optional<ParityTrace> trace;
  std::optional<RecordedRun> recorded;
  std::string name;  // of `trace` or `recorded`, for people
};

// InvalidArgument, naming the field; see study_options.h.
absl::StatusOr<ParityOptions> ParityOptionsFromJson(const nlohmann::json& json);

}  // namespace mpsd::runbook

#endif  // MPSD_CORE_RUNBOOK_PARITY_OPTIONS_H_
