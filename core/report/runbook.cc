// SPDX-License-Identifier: Apache-2.0
#include "core/report/runbook.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::runbook {

const char* NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUnknown:
      break;
    case Verdict::kPass:
      return "VERDICT_PASS";
    case Verdict::kWarn:
      return "VERDICT_WARN";
    case Verdict::kFail:
      return "VERDICT_FAIL";
  }
  return "VERDICT_UNSPECIFIED";
}

nlohmann::json ToJson(const Finding& finding) {
  nlohmann::json json = {{"name", finding.name},
                         {"verdict", NameOf(finding.verdict)},
                         {"found", finding.found}};
  if (!finding.advice.empty()) json["advice"] = finding.advice;
  if (finding.value) json["value"] = *finding.value;
  if (finding.threshold) json["threshold"] = *finding.threshold;
  if (!finding.unit.empty()) json["unit"] = finding.unit;
  return json;
}

Verdict Worst(const std::vector<Finding>& findings) {
  Verdict worst = Verdict::kUnknown;
  for (const Finding& finding : findings) {
    worst = std::max(worst, finding.verdict);
  }
  return worst;
}

void SortBySeverity(std::vector<Finding>& findings) {
  std::stable_sort(
      findings.begin(), findings.end(),
      [](const Finding& a, const Finding& b) { return a.verdict > b.verdict; });
}

namespace {

const Threshold* Find(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kThresholds), std::end(kThresholds),
                   [&](const Threshold& t) { return t.name == name; });
  return found == std::end(kThresholds) ? nullptr : found;
}

absl::Status Unknown(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat(
      "thresholds: there is no '", base::Quotable(name), "'; there are ",
      absl::StrJoin(kThresholds, ", ",
                    [](std::string* out, const Threshold& t) {
                      absl::StrAppend(out, t.name);
                    })));
}

// A threshold's bounds, human-readable.
std::string Allowed(const Threshold& threshold) {
  const char* const number = threshold.whole ? "whole number" : "finite number";
  if (threshold.most == Threshold().most) {
    return absl::StrCat("a ", number, " of ", threshold.least, " or more");
  }
  return absl::StrCat("a ", number, " from ", threshold.least, " to ",
                      threshold.most);
}

bool IsAllowed(const Threshold& threshold, double value) {
  // False for NaN.
  return value >= threshold.least && value <= threshold.most &&
         (!threshold.whole || value == std::floor(value));
}

}  // namespace

absl::StatusOr<Thresholds> Thresholds::FromMap(
    const std::map<std::string, double>& values) {
  if (values.size() > limits::kThresholds) {
    return absl::InvalidArgumentError(
        absl::StrCat("thresholds: has ", values.size(), " entries, at most ",
                     limits::kThresholds, " are allowed"));
  }
  Thresholds thresholds;
  for (const auto& [name, value] : values) {
    const Threshold* threshold = Find(name);
    if (threshold == nullptr) return Unknown(name);
    if (!IsAllowed(*threshold, value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("thresholds: ", name, ": must be ", Allowed(*threshold),
                       ", is ", value));
    }
    thresholds.set_[name] = value;
  }
  return thresholds;
}

absl::StatusOr<Thresholds> Thresholds::FromJson(const nlohmann::json& values) {
  if (!values.is_object()) {
    return absl::InvalidArgumentError("thresholds: must be a JSON object");
  }
  std::map<std::string, double> map;
  for (const auto& [name, value] : values.items()) {
    if (!value.is_number()) {
      return NotAllowed(absl::StrCat("thresholds: ", base::Quotable(name)),
                        "a number", value);
    }
    map[name] = value.get<double>();
  }
  return FromMap(map);
}

double Thresholds::Get(std::string_view name) const {
  if (const auto set = set_.find(name); set != set_.end()) return set->second;
  const Threshold* threshold = Find(name);
  base::Check(threshold != nullptr, "the table has the threshold");
  return threshold->value;
}

namespace {

using Options = nlohmann::json;

constexpr char kOwnChoice[] = ", or 0 for mpsd's own choice";

bool IsUnset(const Options& options, const char* field) {
  const auto found = options.find(field);
  return found == options.end() || *found == 0;
}

// `more`: what is allowed in addition to the numbers from `min` to `max`.
absl::StatusOr<double> Number(const Options& options, const char* field,
                              double min, double max, bool whole,
                              const char* more) {
  const Options& given = options.at(field);
  const double value = given.is_number() ? given.get<double>() : NAN;
  if (value >= min && value <= max && (!whole || value == std::floor(value))) {
    return value;
  }
  return NotAllowed(field,
                    absl::StrCat(whole ? "a whole number" : "a number",
                                 " from ", min, " to ", max, more),
                    given);
}

}  // namespace

absl::Status NotAllowed(const std::string& field, const std::string& allowed,
                        const Options& given) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be ", allowed, ", is ",
                   base::Quotable(given.dump(
                       -1, ' ', false, Options::error_handler_t::replace))));
}

absl::StatusOr<double> NumberOption(const Options& options, const char* field,
                                    double unset, double min, double max) {
  if (IsUnset(options, field)) return unset;
  return Number(options, field, min, max, false, kOwnChoice);
}

absl::StatusOr<int64_t> IntOption(const Options& options, const char* field,
                                  int64_t unset, int64_t min, int64_t max) {
  if (IsUnset(options, field)) return unset;
  ASSIGN_OR_RETURN(const double value,
                   Number(options, field, static_cast<double>(min),
                          static_cast<double>(max), true, kOwnChoice));
  return static_cast<int64_t>(value);
}

absl::StatusOr<std::optional<int64_t>> IntIfThere(const Options& options,
                                                  const char* field,
                                                  int64_t min, int64_t max) {
  if (!options.contains(field)) return std::nullopt;
  ASSIGN_OR_RETURN(const double value,
                   Number(options, field, static_cast<double>(min),
                          static_cast<double>(max), true, ""));
  return static_cast<int64_t>(value);
}

absl::StatusOr<backend::Choice> DeviceNamed(const std::string& field,
                                            const Options& name) {
  const std::optional<backend::Choice> choice =
      name.is_string() ? backend::ChoiceOf(name.get_ref<const std::string&>())
                       : std::nullopt;
  if (choice && *choice != backend::Choice::kAuto) return *choice;
  return NotAllowed(field, "cpu, cuda or mps", name);
}

namespace {

// Reads one field after another; the first error is kept.
class Reader {
 public:
  explicit Reader(const Options& options) : options_(options) {}

  // A field for which 0 means the default that `value` already has.
  void Take(const char* field, int64_t max, int64_t& value) {
    if (!status_.ok()) return;
    Keep(IntOption(options_, field, value, 1, max), value);
  }
  void Take(const char* field, double max, double& value) {
    if (!status_.ok()) return;
    Keep(NumberOption(options_, field, value, 1, max), value);
  }
  // A field with presence.
  void TakeIfThere(const char* field, int64_t min, int64_t max,
                   std::optional<int64_t>& value) {
    if (!status_.ok()) return;
    Keep(IntIfThere(options_, field, min, max), value);
  }
  void Fail(absl::Status status) { status_.Update(std::move(status)); }

  const absl::Status& status() const { return status_; }

 private:
  template <typename T>
  void Keep(const absl::StatusOr<T>& read, T& value) {
    if (read.ok()) value = *read;
    status_ = read.status();
  }

  const Options& options_;
  absl::Status status_;
};

template <typename T>
absl::StatusOr<T> Read(const Reader& reader, T options) {
  if (!reader.status().ok()) return reader.status();
  return options;
}

}  // namespace

absl::StatusOr<ProbeOptions> ProbeOptionsFromJson(const Options& json) {
  ProbeOptions options;
  Reader reader(json);
  reader.Take("warmup_steps", kMostStudySteps, options.warmup_steps);
  reader.Take("steps", kMostStudySteps, options.steps);
  return Read(reader, options);
}

absl::StatusOr<BatchSweepOptions> BatchSweepOptionsFromJson(
    const Options& json) {
  BatchSweepOptions options;
  Reader reader(json);
  reader.Take("first_batch", kMostStudyBatch, options.first_batch);
  reader.Take("max_batch", kMostStudyBatch, options.max_batch);
  reader.Take("steps", kMostStudySteps, options.steps);
  reader.Take("warmup_steps", kMostStudySteps, options.warmup_steps);
  reader.Take("memory_limit_bytes", kMostStudyBytes,
              options.memory_limit_bytes);
  if (options.max_batch > 0 && options.first_batch > options.max_batch) {
    reader.Fail(NotAllowed(
        "first_batch", absl::StrCat("at most max_batch, ", options.max_batch),
        options.first_batch));
  }
  return Read(reader, options);
}

absl::StatusOr<DeviceComparisonOptions> DeviceComparisonOptionsFromJson(
    const Options& json) {
  DeviceComparisonOptions options;
  Reader reader(json);
  reader.Take("steps", kMostStudySteps, options.steps);
  std::optional<int64_t> warmup;
  reader.TakeIfThere("warmup_steps", 0, kMostStudySteps, warmup);
  options.warmup_steps = warmup.value_or(options.warmup_steps);
  const Options devices = json.value("devices", Options::array());
  if (!devices.is_array() || (devices.size() != 2 && !devices.empty())) {
    reader.Fail(
        NotAllowed("devices", "none, or two of cpu, cuda and mps", devices));
    return Read(reader, options);
  }
  for (const Options& name : devices) {
    const auto choice = DeviceNamed("devices", name);
    reader.Fail(choice.status());
    if (choice.ok()) options.devices.push_back(*choice);
  }
  return Read(reader, options);
}

absl::StatusOr<ProfileOptions> ProfileOptionsFromJson(const Options& json) {
  ProfileOptions options;
  Reader reader(json);
  reader.TakeIfThere("steps", 1, kMostStudySteps, options.steps);
  std::optional<int64_t> warm_up;
  reader.TakeIfThere("warm_up_steps", 1, kMostStudySteps, warm_up);
  options.warm_up_steps = warm_up.value_or(options.warm_up_steps);
  return Read(reader, options);
}

absl::StatusOr<SmokeOptions> SmokeOptionsFromJson(const Options& json) {
  SmokeOptions options;
  Reader reader(json);
  reader.Take("rows", kMostSmokeRows, options.rows);
  return Read(reader, options);
}

absl::StatusOr<GenerateOptions> GenerateOptionsFromJson(
    const Options& json, spec::GenerationSettings* settings) {
  GenerateOptions options;
  for (const auto& [field, value] :
       {std::pair{"raw", &options.raw},
        std::pair{"compare_base", &options.compare_base}}) {
    if (!json.contains(field)) continue;
    if (!json[field].is_boolean()) {
      return NotAllowed(field, "true or false", json[field]);
    }
    *value = json[field].get<bool>();
  }
  spec::GenerationSettings own;
  RETURN_IF_ERROR(spec::TakeGenerationSettings(
      json, settings != nullptr ? *settings : own));
  return options;
}

absl::Status CheckStudyOptions(std::string_view study, const Options& options) {
  if (!options.is_object()) {
    return absl::InvalidArgumentError("must be a JSON object");
  }
  ASSIGN_OR_RETURN(
      const auto thresholds,
      Thresholds::FromJson(options.value("thresholds", Options::object())));
  if (study == "probe") return ProbeOptionsFromJson(options).status();
  if (study == "batch_sweep") {
    return BatchSweepOptionsFromJson(options).status();
  }
  if (study == "device_comparison") {
    return DeviceComparisonOptionsFromJson(options).status();
  }
  if (study == "profile") return ProfileOptionsFromJson(options).status();
  if (study == "smoke") return SmokeOptionsFromJson(options).status();
  if (study == "generate") return GenerateOptionsFromJson(options).status();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no study ", std::string(study)));
}

}  // namespace mpsd::runbook
