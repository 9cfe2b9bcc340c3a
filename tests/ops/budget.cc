// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"

namespace mpsd::ops {
namespace {

constexpr char kPath[] = MPSD_TEST_SOURCE_DIR "/tests/ops/budget.txt";
constexpr char kHead[] =
    "# What a run's optimizer steps ask of MPS; written by `ninja "
    "update_budget`.\n"
    "# name, kernels, bytes made, peak bytes, uploads and syncs a step, "
    "distinct shapes\n";

struct Field {
  const char* name;
  int64_t Cost::*value;
};
constexpr Field kFields[] = {
    {"kernels", &Cost::kernels}, {"bytes", &Cost::bytes},
    {"peak", &Cost::peak},       {"uploads", &Cost::uploads},
    {"syncs", &Cost::syncs},     {"shapes", &Cost::shapes}};

Budget ReadBudget() {
  auto text = base::ReadFile(kPath);
  if (!text.ok()) return {};
  auto budget = ParseBudget(*text);
  EXPECT_TRUE(budget.has_value()) << kPath << " is broken";
  return std::move(budget).value_or(Budget());
}

}  // namespace

Cost CostOf(const Recording& recording) {
  Cost cost;
  std::set<std::string> signatures;
  for (const RecordedPart* step : recording.named("step")) {
    cost.kernels += step->kernels;
    cost.bytes += step->bytes;
    cost.peak = std::max(cost.peak, step->peak);
    cost.uploads = std::max(cost.uploads, step->uploads);
    cost.syncs = std::max(cost.syncs, step->syncs);
    signatures.insert(step->signatures.begin(), step->signatures.end());
  }
  cost.shapes = static_cast<int64_t>(signatures.size());
  return cost;
}

std::optional<Budget> ParseBudget(std::string_view text) {
  Budget budget;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, rest;
    Cost cost;
    words >> name;
    for (const Field& field : kFields) words >> cost.*field.value;
    if (!words || words >> rest) return std::nullopt;
    budget[name] = cost;
  }
  return budget;
}

std::string ToText(const Budget& budget) {
  std::string text = kHead;
  for (const auto& [name, cost] : budget) {
    text += name;
    for (const Field& field : kFields) {
      absl::StrAppend(&text, " ", cost.*field.value);
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> Excess(const Cost& cost, const Cost& budget) {
  std::vector<std::string> found;
  for (const Field& field : kFields) {
    if (cost.*field.value <= budget.*field.value) continue;
    found.push_back(absl::StrCat(field.name, " ", cost.*field.value,
                                 ", budget ", budget.*field.value));
  }
  return found;
}

void CheckBudget(const std::string& name, const Cost& cost) {
  Budget budget = ReadBudget();
  if (std::getenv("MPSD_UPDATE_BUDGET") != nullptr) {
    budget[name] = cost;
    ASSERT_TRUE(base::WriteFileAtomic(kPath, ToText(budget)).ok());
    return;
  }
  const auto it = budget.find(name);
  ASSERT_NE(it, budget.end())
      << name << " has no budget yet: ninja update_budget";
  const std::vector<std::string> excess = Excess(cost, it->second);
  EXPECT_TRUE(excess.empty())
      << name << " costs more than before: " << absl::StrJoin(excess, "; ")
      << ". If it must: ninja update_budget, and commit budget.txt";
  if (excess.empty() && cost != it->second) {
    std::cout << name << " costs less than its budget: "
              << absl::StrJoin(Excess(it->second, cost), "; ")
              << " (the first number is the budget). ninja update_budget "
                 "keeps it so\n";
  }
}

}  // namespace mpsd::ops
