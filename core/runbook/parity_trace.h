// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_RUNBOOK_PARITY_TRACE_H_
#define MPSD_CORE_RUNBOOK_PARITY_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// What one side of a parity study did. The structs are messages of
// proto/mpsd/v1/parity.proto, their JSON spelt as the .proto spells it.
namespace mpsd::runbook {

inline constexpr size_t kTracedTensors = 1000;
inline constexpr int64_t kProbes = 4;        // values of each tensor
inline constexpr size_t kDigestDigits = 16;  // of a SHA-256, hexadecimal

struct TensorSummary {
  double norm = 0;  // L2
  std::string sha256;
  std::vector<float> probes;
};
TensorSummary Summarize(std::span<const float> values);

struct TensorTrace {
  std::string name;
  int64_t elements = 0;
  TensorSummary gradient, first, last;
};

struct ParityTrace {
  std::string device, description, dtype, mpsd_version, torch_version;
  std::string gradients;
  std::vector<double> losses, grad_norms;
  std::vector<std::string> batches;  // digest of each step's samples
  std::string start;                 // digest of the values before step 1
  std::vector<TensorTrace> tensors;  // all of them; JSON has kTracedTensors
  std::string metric;                // empty: nothing was evaluated
  double metric_value = 0;
};
nlohmann::json ToJson(const ParityTrace& trace);
// InvalidArgument, naming the member, for what is no such message: another
// client or another machine wrote it.
absl::StatusOr<ParityTrace> TraceFromJson(const nlohmann::json& json);

// Losses that another run wrote down; see RecordedRun.
struct RecordedRun {
  std::vector<int64_t> steps;
  std::vector<double> losses;
  std::vector<double> grad_norms;     // empty, or one for each step
  std::vector<int64_t> label_tokens;  // empty, or one for each step
  std::string metric;
  double metric_value = 0;
  int64_t metric_step = 0;  // 0: none
};
absl::StatusOr<RecordedRun> RecordedFromJson(const nlohmann::json& json);

}  // namespace mpsd::runbook

#endif  // MPSD_CORE_RUNBOOK_PARITY_TRACE_H_
