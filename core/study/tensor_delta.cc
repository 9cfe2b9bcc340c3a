// SPDX-License-Identifier: Apache-2.0
#include "core/study/tensor_delta.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/check.h"

namespace mpsd::study {
namespace {

constexpr double kFloor = 1e-3;

// JSON has no infinity.
double Finite(double value) {
  return std::isfinite(value) ? value : std::numeric_limits<double>::max();
}

double Ratio(double difference, double reference) {
  if (difference == 0) return 0;
  return Finite(difference / reference);
}

const char* NameOf(TensorRole role) {
  switch (role) {
    case TensorRole::kGradient:
      return "TENSOR_ROLE_GRADIENT";
    case TensorRole::kFirstValue:
      return "TENSOR_ROLE_FIRST_VALUE";
    case TensorRole::kLastValue:
      break;
  }
  return "TENSOR_ROLE_LAST_VALUE";
}

}  // namespace

nlohmann::json ToJson(const TensorDelta& delta) {
  return {{"name", delta.name},       {"role", NameOf(delta.role)},
          {"max_abs", delta.max_abs}, {"relative_l2", delta.relative_l2},
          {"norm", delta.norm},       {"reference_norm", delta.reference_norm}};
}

void DeltaTable::Add(const std::string& name, TensorRole role,
                     std::span<const float> values,
                     std::span<const float> reference) {
  base::CheckEqual(values.size(), reference.size(), "elements of both sides");
  double largest = 0, difference = 0, of_values = 0, of_reference = 0;
  bool equal = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const double a = values[i], b = reference[i];
    double apart = std::abs(a - b);
    // A NaN would be lost in a maximum.
    if (std::isnan(apart)) apart = std::numeric_limits<double>::infinity();
    equal = equal && apart == 0;
    largest = std::max(largest, apart);
    difference += apart * apart;
    of_values += a * a;
    of_reference += b * b;
  }
  Row row;
  row.delta = {name,
               role,
               Finite(largest),
               0,
               Finite(std::sqrt(of_values)),
               Finite(std::sqrt(of_reference))};
  row.difference = Finite(std::sqrt(difference));
  row.elements = static_cast<int64_t>(values.size());
  Keep(std::move(row), equal);
}

void DeltaTable::Add(const std::string& name, TensorRole role, int64_t elements,
                     const TensorSummary& values,
                     const TensorSummary& reference) {
  Row row;
  row.delta = {name, role, 0, 0, values.norm, reference.norm};
  row.elements = elements;
  double squares = 0;
  const size_t probes = std::min(values.probes.size(), reference.probes.size());
  for (size_t i = 0; i < probes; ++i) {
    const double apart = std::abs(static_cast<double>(values.probes[i]) -
                                  static_cast<double>(reference.probes[i]));
    row.delta.max_abs = std::max(row.delta.max_abs, apart);
    squares += apart * apart;
  }
  row.difference =
      std::max(std::abs(values.norm - reference.norm), std::sqrt(squares));
  Keep(std::move(row), values.sha256 == reference.sha256);
}

void DeltaTable::Keep(Row row, bool equal) {
  if (equal) ++equal_;
  Total& total = totals_[row.delta.role];
  total.difference += row.difference * row.difference;
  total.reference += row.delta.reference_norm * row.delta.reference_norm;
  total.elements += row.elements;
  rows_.push_back(std::move(row));
}

std::vector<TensorDelta> DeltaTable::Worst(size_t most) const {
  std::vector<TensorDelta> deltas;
  for (const Row& row : rows_) {
    const Total& total = totals_.at(row.delta.role);
    const double average =
        std::sqrt(total.reference * static_cast<double>(row.elements) /
                  static_cast<double>(std::max<int64_t>(total.elements, 1)));
    deltas.push_back(row.delta);
    deltas.back().relative_l2 = Ratio(
        row.difference, std::max(row.delta.reference_norm, kFloor * average));
  }
  std::stable_sort(deltas.begin(), deltas.end(),
                   [](const TensorDelta& a, const TensorDelta& b) {
                     return a.relative_l2 > b.relative_l2;
                   });
  if (deltas.size() > most) deltas.resize(most);
  return deltas;
}

double DeltaTable::Whole(TensorRole role) const {
  const auto total = totals_.find(role);
  if (total == totals_.end()) return 0;
  return Ratio(std::sqrt(total->second.difference),
               std::sqrt(total->second.reference));
}

}  // namespace mpsd::study
