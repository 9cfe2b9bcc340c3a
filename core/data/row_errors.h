// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_ROW_ERRORS_H_
#define MPSD_CORE_DATA_ROW_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "core/spec/cat.h"

namespace mpsd::data {

// The faults of a file's rows, the first few of them.
class RowErrors {
 public:
  static constexpr size_t kMax = 5;

  void Add(const std::string& place, const std::string& fault) {
    if (!full()) errors_.push_back(spec::Cat(place, ": ", fault));
  }
  // A fault that begins with its line.
  void AddAt(const std::string& file, const std::string& line_and_fault) {
    if (!full()) errors_.push_back(spec::Cat(file, ":", line_and_fault));
  }
  bool full() const { return errors_.size() == kMax; }
  bool empty() const { return errors_.empty(); }

  // InvalidArgument "<place>: <fault>", one a line; OK when there are none.
  absl::Status status() const {
    if (errors_.empty()) return absl::OkStatus();
    std::string message = absl::StrJoin(errors_, "\n");
    if (full()) {
      message += spec::Cat("\n(reading stopped at ", kMax, " bad rows)");
    }
    return absl::InvalidArgumentError(message);
  }

 private:
  std::vector<std::string> errors_;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_ROW_ERRORS_H_
