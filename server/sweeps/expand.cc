// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/expand.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/spec/field_edit.h"
#include "server/sweeps/random_draw.h"

namespace mpsd::sweeps {
namespace {

using Json = nlohmann::ordered_json;
using Combination = std::vector<std::string>;

// More than the bound, as far as anybody has to know.
constexpr int64_t kMany = int64_t{1} << 53;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<int64_t> GridSize(const Plan& plan) {
  int64_t size = 1;
  for (const Parameter& parameter : plan.parameters) {
    const auto* choices = std::get_if<Choices>(&parameter.values);
    if (choices == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameters: ", base::Quotable(parameter.field),
          ": a grid has no ranges: name the values, or draw some at random"));
    }
    const auto count = static_cast<int64_t>(choices->values.size());
    size = size > kMany / count ? kMany : size * count;
  }
  if (size <= limits::kSweepJobs) return size;
  return absl::InvalidArgumentError(
      absl::StrCat("parameters: the grid has ",
                   size == kMany ? "very many" : absl::StrCat(size),
                   " combinations, at most ", limits::kSweepJobs,
                   " are allowed: name fewer values, or draw some at random"));
}

absl::StatusOr<std::vector<Combination>> Grid(const Plan& plan) {
  const absl::StatusOr<int64_t> size = GridSize(plan);
  if (!size.ok()) return size.status();
  std::vector<Combination> all(static_cast<size_t>(*size));
  int64_t run = *size;  // of equal values
  for (const Parameter& parameter : plan.parameters) {
    const auto& values = std::get<Choices>(parameter.values).values;
    run /= static_cast<int64_t>(values.size());
    for (int64_t i = 0; i < *size; ++i) {
      const auto which = static_cast<size_t>(i / run) % values.size();
      all[static_cast<size_t>(i)].push_back(
          Dump(spec::FieldValue(values[which])));
    }
  }
  return all;
}

// As people would write it: 0.0003162, not 0.00031622776601683794.
std::string Rounded(double value, double low, double high) {
  std::string text = absl::StrFormat("%.4g", value);
  double rounded = 0;
  if (absl::SimpleAtod(text, &rounded) && rounded >= low && rounded <= high) {
    return text;
  }
  return Dump(std::clamp(value, low, high));
}

// What was drawn of a parameter: which one of its choices, or the number in its
// range. Long values cost no more than short ones until a child gets them.
struct Drawn {
  size_t choice = 0;
  std::string number;
  auto operator<=>(const Drawn&) const = default;
};

Drawn DrawFrom(const Choices& choices, RandomDraw& draw) {
  return {draw.Below(choices.values.size()), ""};
}
Drawn DrawFrom(const Uniform& range, RandomDraw& draw) {
  return {0, Rounded(range.low + draw.Share() * (range.high - range.low),
                     range.low, range.high)};
}
Drawn DrawFrom(const LogUniform& range, RandomDraw& draw) {
  const double low = std::log(range.low), high = std::log(range.high);
  return {0, Rounded(std::exp(low + draw.Share() * (high - low)), range.low,
                     range.high)};
}
Drawn DrawFrom(const Integers& range, RandomDraw& draw) {
  const auto count = static_cast<uint64_t>(range.high - range.low) + 1;
  return {0, absl::StrCat(range.low + static_cast<int64_t>(draw.Below(count)))};
}

Combination TextsOf(const Plan& plan, const std::vector<Drawn>& drawn) {
  Combination texts;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto* choices = std::get_if<Choices>(&plan.parameters[i].values);
    texts.push_back(
        choices == nullptr
            ? drawn[i].number
            : Dump(spec::FieldValue(choices->values[drawn[i].choice])));
  }
  return texts;
}

absl::StatusOr<std::vector<Combination>> Random(const Plan& plan) {
  if (plan.count < 1 || plan.count > limits::kSweepJobs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "count: must be 1 to ", limits::kSweepJobs, ", is ", plan.count));
  }
  const auto count = static_cast<size_t>(plan.count);
  RandomDraw draw(plan.seed);
  std::vector<Combination> all;
  std::set<std::vector<Drawn>> seen;
  // Enough to find the last of limits::kSweepJobs combinations: that takes
  // about as many draws as there are, times the logarithm of them.
  const size_t tries = 10'000 + 200 * count;
  for (size_t i = 0; i < tries && all.size() < count; ++i) {
    std::vector<Drawn> one;
    one.reserve(plan.parameters.size());
    for (const Parameter& parameter : plan.parameters) {
      one.push_back(
          std::visit([&](const auto& values) { return DrawFrom(values, draw); },
                     parameter.values));
    }
    const auto [place, is_new] = seen.insert(std::move(one));
    if (is_new) all.push_back(TextsOf(plan, *place));
  }
  if (all.size() == count) return all;
  return absl::InvalidArgumentError(absl::StrCat(
      "count: there are no ", count, " different combinations, only ",
      all.size(), ": name more values, or make a grid of them"));
}

absl::Status CheckBytes(const std::vector<Combination>& all) {
  size_t bytes = 0;
  for (const Combination& one : all) {
    for (const std::string& value : one) bytes += value.size();
  }
  if (bytes <= kChildrenBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "parameters: the values of all ", all.size(), " children have ", bytes,
      " bytes together, at most ", kChildrenBytes,
      " are allowed: take shorter values, or fewer children"));
}

}  // namespace

absl::StatusOr<std::vector<Combination>> Expand(const Plan& plan) {
  absl::Status checked = CheckParameters(plan.parameters);
  if (!checked.ok()) return checked;
  auto all = plan.strategy == Strategy::kGrid ? Grid(plan) : Random(plan);
  if (all.ok()) checked = CheckBytes(*all);
  if (!checked.ok()) return checked;
  return all;
}

}  // namespace mpsd::sweeps
