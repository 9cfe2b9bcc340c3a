// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_TENSOR_DELTA_H_
#define MPSD_CORE_STUDY_TENSOR_DELTA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/runbook/parity_trace.h"

namespace mpsd::study {

using runbook::TensorSummary;

inline constexpr size_t kShownDeltas = 200;

// TensorRole of proto/mpsd/v1/parity.proto.
enum class TensorRole { kGradient = 1, kFirstValue = 2, kLastValue = 3 };

// How a tensor differs between the two sides; see the message TensorDelta.
struct TensorDelta {
  std::string name;
  TensorRole role = TensorRole::kGradient;
  double max_abs = 0;
  double relative_l2 = 0;
  double norm = 0, reference_norm = 0;
};
nlohmann::json ToJson(const TensorDelta& delta);

// Collects the differences of all tensors of two runs.
class DeltaTable {
 public:
  // Two sides of one tensor, of equal length.
  void Add(const std::string& name, TensorRole role,
           std::span<const float> values, std::span<const float> reference);
  // The same by what was noted of them: no more than the true difference.
  void Add(const std::string& name, TensorRole role, int64_t elements,
           const TensorSummary& values, const TensorSummary& reference);

  // The worst first, at most `most`. A tensor's relative_l2 is the L2 norm of
  // its difference by that of the reference; where the reference is below a
  // thousandth of what a tensor of this size has on average in its role, by
  // that: numbers that are rounding alone (the gradient of a key's bias) would
  // differ wholly on any two devices.
  std::vector<TensorDelta> Worst(size_t most = kShownDeltas) const;
  // The L2 norm of all differences in `role` by that of all references.
  double Whole(TensorRole role) const;
  bool Has(TensorRole role) const { return totals_.contains(role); }

  int64_t compared() const { return static_cast<int64_t>(rows_.size()); }
  int64_t equal() const { return equal_; }  // bit for bit

 private:
  struct Row {
    TensorDelta delta;
    double difference = 0;  // L2
    int64_t elements = 0;
  };
  struct Total {
    double difference = 0, reference = 0;  // squares
    int64_t elements = 0;
  };
  void Keep(Row row, bool equal);

  std::vector<Row> rows_;
  std::map<TensorRole, Total> totals_;
  int64_t equal_ = 0;
};

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_TENSOR_DELTA_H_
