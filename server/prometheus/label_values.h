// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_LABEL_VALUES_H_
#define MPSD_SERVER_PROMETHEUS_LABEL_VALUES_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace mpsd::prometheus {

// The longest value of a label that comes from a client.
inline constexpr size_t kLabelBytes = 128;

// The name of an enum's value as a label: "OutOfMemory" and "out_of_memory" are
// "out_of_memory", "QUEUED" is "queued".
std::string SnakeCase(std::string_view name);

// A client's text as a label: UTF-8 without control characters, at most
// kLabelBytes.
std::string BoundedLabel(std::string_view text);

// Bounds the number of a label's values: the first `most` values that were met
// keep their names for good, every later one is "other". Not thread-safe.
class LabelCap {
 public:
  static constexpr const char* kOther = "other";

  explicit LabelCap(size_t most) : most_(most) {}
  std::string Of(const std::string& value);

 private:
  const size_t most_;
  std::set<std::string> known_;
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_LABEL_VALUES_H_
