// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_PARAMETER_H_
#define MPSD_SERVER_SWEEPS_PARAMETER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace mpsd::sweeps {

// Bounds of what a request names, as proto/mpsd/v1/sweep.proto has them; those
// of a sweep are in core/base/limits.h.
inline constexpr size_t kFieldBytes = 128;   // a label's key has no more
inline constexpr size_t kValueBytes = 4096;  // of one value, as JSON
// All values that a request names; every list of sweeps shows them.
inline constexpr size_t kValuesBytes = 256 << 10;

// The values that a field takes, each as JSON or as a text that is none.
struct Choices {
  std::vector<std::string> values;
  bool operator==(const Choices&) const = default;
};
struct Uniform {
  double low = 0, high = 0;
  bool operator==(const Uniform&) const = default;
};
// Uniform in the logarithm.
struct LogUniform {
  double low = 0, high = 0;
  bool operator==(const LogUniform&) const = default;
};
// low, low + 1, …, high.
struct Integers {
  int64_t low = 0, high = 0;
  bool operator==(const Integers&) const = default;
};

// A field of job.json and its values.
struct Parameter {
  std::string field;  // "training.learning_rate"
  std::variant<Choices, Uniform, LogUniform, Integers> values;
  bool operator==(const Parameter&) const = default;
};

// InvalidArgument for a list of parameters that makes no sense by itself: none,
// too many, too long ones, a field twice or within another one, a range without
// numbers in it.
absl::Status CheckParameters(absl::Span<const Parameter> parameters);

// Whether one path names the other's field, or an object around it.
bool Overlap(const std::string& a, const std::string& b);

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_PARAMETER_H_
