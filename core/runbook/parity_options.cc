// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/parity_options.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/runbook/option_values.h"

namespace mpsd::runbook {

absl::StatusOr<ParityOptions> ParityOptionsFromJson(
    const nlohmann::json& json) {
  ParityOptions options;
  const auto find = [&](const char* name) -> const nlohmann::json* {
    const auto it = json.find(name);
    return it == json.end() ? nullptr : &*it;
  };
  const absl::StatusOr<int64_t> steps =
      IntOption(json, "steps", options.steps, 1, kMostParitySteps);
  if (!steps.ok()) return steps.status();
  options.steps = *steps;
  const std::string unset;
  if (const auto* device = find("device"); device && *device != unset) {
    auto choice = DeviceNamed("device", *device);
    if (!choice.ok()) return choice.status();
    options.device = *choice;
  }
  int sides = 0;
  if (const auto* device = find("reference_device")) {
    ++sides;
    auto choice = DeviceNamed("reference_device", *device);
    if (!choice.ok()) return choice.status();
    options.reference_device = *choice;
  }
  if (const auto* trace = find("trace")) {
    ++sides;
    auto parsed = TraceFromJson(*trace);
    if (!parsed.ok()) return parsed.status();
    options.trace = *std::move(parsed);
  }
  if (const auto* recorded = find("recorded")) {
    ++sides;
    auto parsed = RecordedFromJson(*recorded);
    if (!parsed.ok()) return parsed.status();
    options.recorded = *std::move(parsed);
  }
  if (sides > 1) {
    return absl::InvalidArgumentError(
        "reference_device, trace, recorded: at most one of them");
  }
  if (const auto* name = find("name")) {
    if (!name->is_string()) return NotAllowed("name", "a text", *name);
    options.name = name->get<std::string>();
    if (options.name.size() > kParityNameBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("name: has ", options.name.size(), " bytes, at most ",
                       kParityNameBytes, " are allowed"));
    }
  }
  return options;
}

}  // namespace mpsd::runbook
