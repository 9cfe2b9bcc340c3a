// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_PLAN_LINES_H_
#define MPSD_SERVER_PLANNER_PLAN_LINES_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/limits.h"

namespace mpsd::planner {

inline constexpr size_t kLineBytes = limits::kStudyResultBytes;
inline constexpr size_t kOutputBytes = 4 * kLineBytes;  // of one process

// What `mpsd-worker --plan` says, a JSON object a line: {"stage": "tokenizing"}
// any number of times, and at last {"plan": {…}}, or {"error": {"code":
// "INVALID_ARGUMENT", "message": "…"}}. Believes nothing that it reads.
class PlanLines {
 public:
  // `on_stage` gets each stage, printable and bounded.
  explicit PlanLines(std::function<void(std::string)> on_stage)
      : on_stage_(std::move(on_stage)) {}

  // The next bytes. Internal for what is no such line, for a line or an output
  // without end, and for words behind the last line; further calls return the
  // same.
  absl::Status Take(std::string_view bytes);

  // Whether the last line has come.
  bool done() const { return done_; }
  // The plan as JSON, or the error that the process told; Internal where the
  // last line never came.
  absl::StatusOr<std::string> Result() const;

 private:
  absl::Status TakeLine(std::string_view line);

  const std::function<void(std::string)> on_stage_;
  std::string line_;  // as far as it has come
  size_t bytes_ = 0;
  bool done_ = false;
  absl::Status broken_;
  absl::StatusOr<std::string> result_;
};

}  // namespace mpsd::planner

#endif  // MPSD_SERVER_PLANNER_PLAN_LINES_H_
