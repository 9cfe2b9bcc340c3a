// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_ROW_ERRORS_H_
#define MPSD_CORE_DATA_ROW_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/data/shown.h"

namespace mpsd::data {

// The first few faults of a file's rows; only their locations if contents are
// not shown (shown.h).
class RowErrors {
 public:
  static constexpr size_t kMax = 5;

  void Add(const std::string& place, const std::string& fault) {
    if (full()) return;
    errors_.push_back(base::Cat(place, ": ", ContentsShown() ? fault : Bad()));
  }
  // Adds a fault whose text begins with its line.
  void AddAt(const std::string& file, const std::string& line_and_fault) {
    const size_t line_end = line_and_fault.find(": ");
    const std::string line = line_and_fault.substr(0, line_end);
    const std::string fault = line_end == line_and_fault.npos
                                  ? ""
                                  : line_and_fault.substr(line_end + 2);
    Add(base::Cat(file, ":", line), fault);
  }
  bool full() const { return errors_.size() == kMax; }
  bool empty() const { return errors_.empty(); }

  // InvalidArgument "<place>: <fault>", one a line; OK without faults.
  absl::Status status() const {
    if (errors_.empty()) return absl::OkStatus();
    std::string message = absl::StrJoin(errors_, "\n");
    if (full()) {
      message += base::Cat("\n(reading stopped at ", kMax, " bad rows)");
    }
    return absl::InvalidArgumentError(message);
  }

 private:
  static std::string Bad() {
    return base::Cat("a bad row (the fault is ", kNotShown, ")");
  }

  std::vector<std::string> errors_;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_ROW_ERRORS_H_
