// SPDX-License-Identifier: Apache-2.0
#include "core/report/study_options.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/report/option_values.h"
#include "core/report/thresholds.h"

namespace mpsd::runbook {
namespace {

using Json = nlohmann::json;

// Reads one field after another; the first error is kept.
class Reader {
 public:
  explicit Reader(const Json& options) : options_(options) {}

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

  const Json& options_;
  absl::Status status_;
};

template <typename T>
absl::StatusOr<T> Read(const Reader& reader, T options) {
  if (!reader.status().ok()) return reader.status();
  return options;
}

}  // namespace

absl::StatusOr<ProbeOptions> ProbeOptionsFromJson(const Json& json) {
  ProbeOptions options;
  Reader reader(json);
  reader.Take("warmup_steps", kMostStudySteps, options.warmup_steps);
  reader.Take("steps", kMostStudySteps, options.steps);
  return Read(reader, options);
}

absl::StatusOr<BatchSweepOptions> BatchSweepOptionsFromJson(const Json& json) {
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
    const Json& json) {
  DeviceComparisonOptions options;
  Reader reader(json);
  reader.Take("steps", kMostStudySteps, options.steps);
  std::optional<int64_t> warmup;
  reader.TakeIfThere("warmup_steps", 0, kMostStudySteps, warmup);
  options.warmup_steps = warmup.value_or(options.warmup_steps);
  const Json devices = json.value("devices", Json::array());
  if (!devices.is_array() || (devices.size() != 2 && !devices.empty())) {
    reader.Fail(
        NotAllowed("devices", "none, or two of cpu, cuda and mps", devices));
    return Read(reader, options);
  }
  for (const Json& name : devices) {
    const auto choice = DeviceNamed("devices", name);
    reader.Fail(choice.status());
    if (choice.ok()) options.devices.push_back(*choice);
  }
  return Read(reader, options);
}

absl::StatusOr<ProfileOptions> ProfileOptionsFromJson(const Json& json) {
  ProfileOptions options;
  Reader reader(json);
  reader.TakeIfThere("steps", 1, kMostStudySteps, options.steps);
  std::optional<int64_t> warm_up;
  reader.TakeIfThere("warm_up_steps", 1, kMostStudySteps, warm_up);
  options.warm_up_steps = warm_up.value_or(options.warm_up_steps);
  return Read(reader, options);
}

absl::StatusOr<SmokeOptions> SmokeOptionsFromJson(const Json& json) {
  SmokeOptions options;
  Reader reader(json);
  reader.Take("rows", kMostSmokeRows, options.rows);
  return Read(reader, options);
}

absl::Status CheckStudyOptions(std::string_view study, const Json& options) {
  if (!options.is_object()) {
    return absl::InvalidArgumentError("must be a JSON object");
  }
  ASSIGN_OR_RETURN(const auto thresholds, Thresholds::FromJson(options.value(
                                              "thresholds", Json::object())));
  if (study == "probe") return ProbeOptionsFromJson(options).status();
  if (study == "batch_sweep") {
    return BatchSweepOptionsFromJson(options).status();
  }
  if (study == "device_comparison") {
    return DeviceComparisonOptionsFromJson(options).status();
  }
  if (study == "profile") return ProfileOptionsFromJson(options).status();
  if (study == "smoke") return SmokeOptionsFromJson(options).status();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no study ", std::string(study)));
}

}  // namespace mpsd::runbook
