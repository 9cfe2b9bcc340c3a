// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_BUDGET_H_
#define MPSD_TESTS_OPS_BUDGET_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ops/jobs.h"

// What an optimizer step may cost, by configuration: budget.txt, written with
// `ninja update_budget` and read by every run of the tests.
namespace mpsd::ops {

// Of all optimizer steps of a run.
struct Cost {
  int64_t kernels = 0;  // calls, all steps
  int64_t bytes = 0;    // of the tensors made, all steps
  int64_t peak = 0;     // highest of a step, above what lives between steps
  int64_t uploads = 0;  // most of a step
  int64_t syncs = 0;    // most of a step
  int64_t shapes = 0;   // distinct calls by shape: graphs that MPS compiles
  bool operator==(const Cost&) const = default;
};

Cost CostOf(const Recording& recording);

using Budget = std::map<std::string, Cost>;

// A line each: name kernels bytes peak uploads syncs shapes. Absent for a line
// that is not so.
std::optional<Budget> ParseBudget(std::string_view text);
std::string ToText(const Budget& budget);

// Which numbers of `cost` are above those of `budget`: "kernels 12, budget 10".
std::vector<std::string> Excess(const Cost& cost, const Cost& budget);

// Fails the test where the configuration has no budget or needs more, says
// where it needs less. With MPSD_UPDATE_BUDGET set writes it instead.
void CheckBudget(const std::string& name, const Cost& cost);

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_BUDGET_H_
