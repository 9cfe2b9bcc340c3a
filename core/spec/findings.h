// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_FINDINGS_H_
#define MPSD_CORE_SPEC_FINDINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mpsd::spec {

// The faults of one text, collected so that a user can fix them all at once.
class Findings {
 public:
  // An empty `path` means the text as a whole.
  void Add(int line, std::string_view path, std::string_view message);

  bool empty() const { return list_.empty(); }

  // OK without findings; else InvalidArgument with one line each, ordered by
  // line: "<origin>:<line>: <path>: <message>". Lists at most 20.
  absl::Status ToStatus(std::string_view origin) const;

 private:
  struct Finding {
    int line;
    std::string text;
  };
  std::vector<Finding> list_;
};

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_FINDINGS_H_
