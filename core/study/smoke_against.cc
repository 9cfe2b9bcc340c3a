// SPDX-License-Identifier: Apache-2.0
#include "core/study/smoke_against.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/bytes_text.h"
#include "core/base/printable.h"

namespace mpsd::study {
namespace {

using nlohmann::json;
using runbook::Finding;
using runbook::Verdict;

// Differences of one kind that are named one by one.
constexpr int kMostNamed = 40;

json At(const json& object, const char* name) {
  return object.is_object() ? object.value(name, json()) : json();
}

std::string Text(const json& value) {
  if (value.is_string()) return base::Quotable(value.get<std::string>());
  return value.is_null() ? "not set" : base::Quotable(value.dump());
}

double Number(const json& value) {
  return value.is_number() ? value.get<double>() : 0;
}

bool Told(const json& value) {
  return !value.is_null() && !(value.is_string() && value == "");
}

Finding Pair(const char* name, const json& here, const json& there,
             Verdict if_different, const char* advice) {
  Finding finding = {name, Verdict::kNotTold, ""};
  if (!Told(here) || !Told(there)) {
    finding.found = absl::StrCat("not told by ", Told(here) ? "there" : "here");
  } else if (here == there) {
    finding.verdict = Verdict::kPass;
    finding.found = absl::StrCat("both: ", Text(here));
  } else {
    finding.verdict = if_different;
    finding.found = absl::StrCat("here ", Text(here), ", there ", Text(there));
    finding.advice = advice;
  }
  return finding;
}

// One finding for each name whose values differ; one for all where none does.
void AddMaps(const char* name, const json& here, const json& there,
             Verdict if_different, const char* advice,
             std::vector<Finding>& findings) {
  if (!there.is_object() && !here.is_object()) {
    findings.push_back({name, Verdict::kNotTold, "not told"});
    return;
  }
  std::set<std::string> names;
  for (const json* side : {&here, &there}) {
    if (!side->is_object()) continue;
    for (const auto& [key, value] : side->items()) names.insert(key);
  }
  int different = 0;
  for (const std::string& key : names) {
    const json mine = At(here, key.c_str()), other = At(there, key.c_str());
    if (mine == other) continue;
    if (++different > kMostNamed) continue;
    findings.push_back(
        {absl::StrCat(name, ".", base::Quotable(key)), if_different,
         absl::StrCat("here ", Text(mine), ", there ", Text(other)), advice});
  }
  if (different > kMostNamed) {
    findings.push_back({name, if_different,
                        absl::StrCat(different - kMostNamed,
                                     " more differ, which are not named")});
  } else if (different == 0) {
    findings.push_back({name, Verdict::kPass,
                        absl::StrCat("all ", names.size(), " are equal")});
  }
}

Finding Memory(const json& here, const json& there, double allowed) {
  Finding finding = {"against.memory", Verdict::kNotTold, ""};
  const json bytes = At(there, "epoch_bytes");
  if (!bytes.is_array() || bytes.empty() ||
      At(here, "memory_from") != At(there, "memory_from")) {
    finding.found = "not told in the same way on both machines";
    return finding;
  }
  const json epochs = At(here, "epochs");
  const std::string from =
      At(here, "memory_from") == "driver" ? "driver_bytes" : "footprint_bytes";
  const double mine = epochs.is_array() && !epochs.empty()
                          ? Number(At(epochs.back(), from.c_str()))
                          : 0;
  const double other = Number(bytes.back());
  if (mine <= 0 || other <= 0) {
    finding.found = "not told";
    return finding;
  }
  finding.value = mine / other - 1;
  finding.threshold = allowed;
  finding.unit = "ratio";
  finding.found = absl::StrCat("here ", base::BytesText(mine),
                               " after the last "
                               "epoch, there ",
                               base::BytesText(other));
  finding.verdict = Verdict::kPass;
  if (*finding.value > allowed) {
    finding.verdict = Verdict::kWarn;
    finding.advice =
        "this machine holds more for the same work: look at its torch, its "
        "variables and what else runs";
  }
  return finding;
}

Finding StepTime(const json& here, const json& there) {
  const double mine = Number(At(At(here, "step_seconds"), "median"));
  const double other = Number(At(there, "step_seconds"));
  Finding finding = {"against.step_seconds", Verdict::kNotTold, "not told"};
  if (mine <= 0 || other <= 0) return finding;
  finding.value = mine / other;
  finding.unit = "ratio";
  finding.found =
      absl::StrFormat("here %.3g s a step, there %.3g s", mine, other);
  finding.verdict = Verdict::kPass;  // machines differ in speed
  return finding;
}

}  // namespace

std::vector<Finding> CompareSmoke(const json& here, const json& there,
                                  const runbook::Thresholds& thresholds) {
  const json mine = At(here, "environment"), other = At(there, "environment");
  const auto pair = [&](const char* name, const char* field, Verdict verdict,
                        const char* advice) {
    return Pair(name, At(mine, field), At(other, field), verdict, advice);
  };
  std::vector<Finding> findings = {
      pair("against.data", "train_sha256", Verdict::kFail,
           "the machines train on other data: copy the files anew"),
      pair("against.job", "spec_json", Verdict::kFail,
           "the jobs differ: hand over the job.json itself"),
      pair("against.torch", "torch_version", Verdict::kWarn,
           "install the same torch: kernels and defaults change with it"),
      pair("against.mpsd", "mpsd_version", Verdict::kWarn,
           "install the same mpsd"),
      pair("against.system", "operating_system", Verdict::kWarn,
           "Metal's kernels come with the system: results may differ"),
      // Another chip is what a handoff is about.
      pair("against.processor", "processor", Verdict::kPass, ""),
      Pair("against.device", At(here, "device"), At(there, "device"),
           Verdict::kWarn, "memory and times of two devices do not compare")};
  AddMaps("against.model", At(mine, "model_sha256"), At(other, "model_sha256"),
          Verdict::kFail, "the machines have other files of the model",
          findings);
  AddMaps("against.variable", At(mine, "variables"), At(other, "variables"),
          Verdict::kWarn, "set the variable on both machines or on none",
          findings);
  findings.push_back(
      Memory(here, there, thresholds.Get("smoke.memory_growth")));
  findings.push_back(StepTime(here, there));
  return findings;
}

}  // namespace mpsd::study
