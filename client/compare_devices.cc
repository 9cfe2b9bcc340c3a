// SPDX-License-Identifier: Apache-2.0
#include "client/compare_devices.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

struct Arguments {
  StudyArguments study;
  std::vector<std::string> devices;
  int steps = 0;
  std::optional<int> warmup_steps;
};

// Times of steps: thousandths of a second matter.
std::string Time(double seconds) {
  return seconds < 1 ? absl::StrFormat("%.3g ms", 1000 * seconds)
                     : absl::StrFormat("%.3g s", seconds);
}

std::string Percent(double ratio) {
  return absl::StrFormat("%.1f %%", 100 * ratio);
}

void AddRow(const v1::DeviceTimes& times, Table& table) {
  table.Add({times.device(), Time(times.step_seconds().median()),
             Time(times.step_seconds().p10()), Time(times.step_seconds().p90()),
             Percent(times.data_wait_ratio()),
             Time(times.loader_seconds().median()),
             times.has_utilization_ratio() ? Percent(times.utilization_ratio())
                                           : "not told",
             Count(times.tokens_per_second()), Percent(times.padding_ratio()),
             times.has_peak_bytes() ? Bytes(times.peak_bytes()) : "not told",
             times.description()});
}

std::string DecisionName(v1::DeviceDecision decision,
                         const std::string& baseline) {
  switch (decision) {
    case v1::DEVICE_DECISION_GO:
      return "go";
    case v1::DEVICE_DECISION_FIX_DATA:
      return "fix the data and the batch first";
    case v1::DEVICE_DECISION_STAY_ON_CPU:
      return absl::StrCat("stay on ", baseline);
    default:
      return "none";
  }
}

ExitCode Run(const Console& console, const Arguments& arguments) {
  v1::Study study;
  v1::DeviceComparisonOptions& options = *study.mutable_device_comparison();
  for (const std::string& device : arguments.devices) {
    options.add_devices(device);
  }
  options.set_steps(arguments.steps);
  if (arguments.warmup_steps) options.set_warmup_steps(*arguments.warmup_steps);
  const absl::Status set =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (!set.ok()) {
    return console.Fail(ExitCode::kBadInput, set, "Nothing was submitted.");
  }
  return RunStudy(console, arguments.study, study, PrintDeviceComparison);
}

}  // namespace

void PrintDeviceComparison(const v1::StudyResult& result,
                           const Console& console) {
  const v1::DeviceComparisonResult& comparison = result.device_comparison();
  Table table({"DEVICE", "STEP", "P10", "P90", "WAITS", "LOADER", "BUSY",
               "TOKENS/S", "PADDING", "MEMORY", "WHAT"});
  AddRow(comparison.baseline(), table);
  AddRow(comparison.measured(), table);
  table.Print(console.out, 0);
  console.out << comparison.steps() << " steps each after "
              << comparison.warmup_steps() << " of warm-up, "
              << (comparison.same_batches() ? "of the same samples"
                                            : "of other samples")
              << "\nDecision: "
              << DecisionName(comparison.decision(),
                              Printable(comparison.baseline().device()))
              << " (" << Printable(comparison.reason()) << ")\n";
}

void AddCompareDevices(Command& app, Action* action) {
  auto arguments = std::make_shared<Arguments>();
  Command* verb = app.add_subcommand(
      "compare-devices",
      "Whether a job runs faster on MPS or CUDA than on the CPU");
  DeclareStudy(*verb, &arguments->study);
  verb->add_option("--devices", arguments->devices,
                   "Two of cpu, cuda, mps: compared with, in question; "
                   "default: the CPU, and the accelerator")
      ->type_name("A,B")
      ->delimiter(',')
      ->expected(2)
      ->check(IsMember({"cpu", "cuda", "mps"}));
  verb->add_option("--steps", arguments->steps,
                   "Steps to measure on each; default 20")
      ->type_name("N")
      ->check(Range(1, 1000));
  verb->add_option("--warmup-steps", arguments->warmup_steps,
                   "Steps before these; default 3")
      ->type_name("N")
      ->check(Range(0, 1000));
  verb->callback([=] {
    *action = [=](const Console& console) { return Run(console, *arguments); };
  });
}

}  // namespace mpsd::client
