// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_jobs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/spec/fields.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;
using Combination = std::vector<std::string>;

absl::Status Invalid(const std::string& text, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", base::Quotable(text), "': ", what));
}

std::string Dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// --- Values as people write them ---------------------------------------------

// The comma-separated parts; commas in strings, lists and objects do not count.
std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\' && i + 1 < text.size()) {
        parts.back() += c;
        parts.back() += text[++i];
        continue;
      }
      in_string = c != '"';
    } else if (c == '"' && (depth > 0 || parts.back().empty())) {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  return parts;
}

// The text between `name`( and ), if the text is such a range.
std::optional<std::string> Within(const std::string& name,
                                  const std::string& text) {
  if (!text.starts_with(name + "(") || !text.ends_with(")")) {
    return std::nullopt;
  }
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

bool ReadNumber(const std::string& text, double* number) {
  return absl::SimpleAtod(absl::StripAsciiWhitespace(text), number);
}
bool ReadNumber(const std::string& text, int64_t* number) {
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), number);
}

// nullopt if the text is not two numbers, the lower first.
template <typename Range>
std::optional<Range> ReadRange(const std::string& text) {
  const std::vector<std::string> ends = Split(text);
  Range range;
  if (ends.size() != 2 || !ReadNumber(ends[0], &range.low) ||
      !ReadNumber(ends[1], &range.high)) {
    return std::nullopt;
  }
  if constexpr (std::is_same_v<Range, Integers>) {
    // Beyond this a double, and so a JSON reader, does not distinguish them.
    constexpr int64_t kLargest = int64_t{1} << 53;
    if (range.low > range.high || range.low < -kLargest ||
        range.high > kLargest) {
      return std::nullopt;
    }
  } else if (!(range.low < range.high) ||
             !std::isfinite(range.high - range.low)) {
    return std::nullopt;
  }
  return range;
}

absl::StatusOr<Choices> ReadChoices(const std::string& text,
                                    const std::string& values) {
  Choices choices;
  for (const std::string& value : Split(values)) {
    if (value.empty()) {
      return Invalid(text, "a value is empty; the empty string is \"\"");
    }
    // 1e-4 and 0.0001 are the same value.
    std::string json = Dump(spec::FieldValue(value));
    if (std::count(choices.begin(), choices.end(), json) > 0) {
      return Invalid(text, absl::StrCat("has the value ", base::Quotable(value),
                                        " twice"));
    }
    choices.push_back(std::move(json));
    if (choices.size() > kSweepJobs) {
      return Invalid(text,
                     absl::StrCat("has more than ", kSweepJobs, " values"));
    }
  }
  return choices;
}

// --- Combinations ------------------------------------------------------------

// Whether one path names the other's field, or an object around it.
bool Overlap(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

absl::Status CheckFields(absl::Span<const SweepField> fields) {
  if (fields.empty()) {
    return absl::InvalidArgumentError(
        "name at least one field and its values, as "
        "training.learning_rate=1e-4,3e-4");
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& field = fields[i].field;
    if (Overlap(field, "name")) {
      return Invalid(field, "cannot vary: each job is named after its values");
    }
    if (Overlap(field, "dataset")) {
      return Invalid(field,
                     "cannot vary: the jobs share their data; make a sweep "
                     "for each data set");
    }
    for (size_t j = 0; j < i; ++j) {
      if (!Overlap(field, fields[j].field)) continue;
      return Invalid(field,
                     field == fields[j].field
                         ? "is named twice: name its values together"
                         : absl::StrCat("names a part of what ",
                                        base::Quotable(fields[j].field),
                                        " names, or the other way round"));
    }
  }
  return absl::OkStatus();
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

std::string DrawFrom(const Choices& choices, RandomDraw& draw) {
  return choices[draw.Below(choices.size())];
}
std::string DrawFrom(const Uniform& range, RandomDraw& draw) {
  return Rounded(range.low + draw.Share() * (range.high - range.low), range.low,
                 range.high);
}
std::string DrawFrom(const LogUniform& range, RandomDraw& draw) {
  const double low = std::log(range.low), high = std::log(range.high);
  return Rounded(std::exp(low + draw.Share() * (high - low)), range.low,
                 range.high);
}
std::string DrawFrom(const Integers& range, RandomDraw& draw) {
  const auto count = static_cast<uint64_t>(range.high - range.low) + 1;
  return absl::StrCat(range.low + static_cast<int64_t>(draw.Below(count)));
}

// --- Jobs --------------------------------------------------------------------

std::string LastPart(const std::string& field) {
  const size_t point = field.rfind('.');
  return point == std::string::npos ? field : field.substr(point + 1);
}

// The fields in a job's name: their last parts, if these differ.
std::vector<std::string> ShortNames(absl::Span<const SweepField> fields) {
  std::map<std::string, int> uses;
  for (const SweepField& one : fields) ++uses[LastPart(one.field)];
  std::vector<std::string> names;
  for (const SweepField& one : fields) {
    const std::string last = LastPart(one.field);
    names.push_back(uses[last] == 1 ? last : one.field);
  }
  return names;
}

}  // namespace

absl::StatusOr<SweepField> ParseSweepField(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Invalid(text,
                   "expected FIELD=VALUES, as training.learning_rate=1e-4,3e-4 "
                   "(the job.json comes before --grid and --random)");
  }
  SweepField read{text.substr(0, equals), {}};
  const std::string values = text.substr(equals + 1);
  if (const auto ends = Within("uniform", values)) {
    const auto range = ReadRange<Uniform>(*ends);
    if (!range) {
      return Invalid(
          text, "expected two numbers, the lower first, as uniform(0,0.1)");
    }
    read.values = *range;
  } else if (const auto ends = Within("log", values)) {
    const auto range = ReadRange<LogUniform>(*ends);
    if (!range || range->low <= 0) {
      return Invalid(text,
                     "expected two numbers above 0, the lower first, as "
                     "log(1e-5,1e-3)");
    }
    read.values = *range;
  } else if (const auto ends = Within("int", values)) {
    const auto range = ReadRange<Integers>(*ends);
    if (!range) {
      return Invalid(text,
                     "expected two integers, the lower first, as int(1,100)");
    }
    read.values = *range;
  } else {
    ASSIGN_OR_RETURN(Choices choices, ReadChoices(text, values));
    read.values = std::move(choices);
  }
  return read;
}

absl::StatusOr<std::vector<Combination>> ExpandGrid(
    absl::Span<const SweepField> fields) {
  RETURN_IF_ERROR(CheckFields(fields));
  std::vector<Combination> all(1);
  for (const SweepField& one : fields) {
    const auto* choices = std::get_if<Choices>(&one.values);
    if (choices == nullptr) {
      return Invalid(one.field,
                     "a grid has no ranges: name the values, or draw some with "
                     "--random");
    }
    std::vector<Combination> wider;
    for (const Combination& before : all) {
      for (const std::string& value : *choices) {
        wider.push_back(before);
        wider.back().push_back(value);
      }
    }
    all = std::move(wider);
    if (all.size() > kSweepJobs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the grid has more than ", kSweepJobs,
          " combinations: name fewer values, or draw some with --random"));
    }
  }
  return all;
}

absl::StatusOr<std::vector<Combination>> DrawValues(
    absl::Span<const SweepField> fields, size_t count, int64_t seed) {
  RETURN_IF_ERROR(CheckFields(fields));
  if (count < 1 || count > kSweepJobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--random: draws 1 to ", kSweepJobs, ", not ", count));
  }
  RandomDraw draw(seed);
  std::vector<Combination> all;
  std::set<Combination> seen;
  // Enough to find the last of kSweepJobs combinations: that takes about as
  // many draws as there are, times the logarithm of their number.
  const size_t tries = 10'000 + 200 * count;
  for (size_t i = 0; i < tries && all.size() < count; ++i) {
    Combination one;
    for (const SweepField& field : fields) {
      one.push_back(
          std::visit([&](const auto& values) { return DrawFrom(values, draw); },
                     field.values));
    }
    if (seen.insert(one).second) all.push_back(std::move(one));
  }
  if (all.size() == count) return all;
  return absl::InvalidArgumentError(absl::StrCat(
      "--random: there are no ", count, " different combinations, only ",
      all.size(), ": name more values, or make a grid of them"));
}

absl::StatusOr<std::vector<SweepJob>> MakeSweepJobs(
    const std::string& spec_json, const std::string& name,
    absl::Span<const SweepField> fields,
    absl::Span<const Combination> combinations) {
  const Json base = base::ParseTree<Json>(spec_json);
  const std::string base_name = base.value("name", "");
  const std::vector<std::string> names = ShortNames(fields);
  std::vector<SweepJob> jobs;
  for (const Combination& combination : combinations) {
    SweepJob& job = jobs.emplace_back();
    job.labels[kSweepLabel] = name;
    Json spec = base;
    absl::Status status;
    for (size_t i = 0; i < fields.size() && status.ok(); ++i) {
      const std::string& field = fields[i].field;
      const Json value = base::ParseTree<Json>(combination[i]);
      status = spec::SetField(spec, field, value);
      if (!status.ok()) {
        status = Invalid(field, std::string(status.message()));
      }
      const std::string shown = base::Printable(
          value.is_string() ? value.get<std::string>() : combination[i]);
      absl::StrAppend(&job.values, i == 0 ? "" : " ", names[i], "=", shown);
      job.labels[field] = base::Shortened(shown, limits::kJobLabelValueBytes);
    }
    spec["name"] = base::Shortened(
        base_name.empty() ? job.values
                          : absl::StrCat(base_name, " ", job.values),
        limits::kNameBytes);
    job.spec_json = Dump(spec, 2);
    if (status.ok()) {
      status = spec::ParseTrainSpec(job.spec_json, "job.json").status();
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", jobs.size(), " (",
                       base::Shortened(job.values, limits::kQuotedBytes),
                       "): ", status.message()));
    }
  }
  return jobs;
}

}  // namespace mpsd::client
