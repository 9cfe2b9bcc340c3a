// SPDX-License-Identifier: Apache-2.0
#include "client/smoke.h"

#include <google/protobuf/util/json_util.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/given.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/small_file.h"

namespace mpsd::client {
namespace {

constexpr int kMostRows = 1'000'000;
constexpr int kMostEpochs = 1000;

struct SmokeArguments {
  StudyArguments study;
  int32_t rows = 0;
  std::string against;
};

std::string BytesOr(bool told, int64_t bytes) {
  return told ? Bytes(bytes) : "-";
}

std::string TextOr(const std::string& text) {
  return text.empty() ? "-" : text;
}

// The counter that the result is judged by; 0: not told.
int64_t CountedBytes(const v1::SmokeResult& smoke,
                     const v1::SmokeEpoch& epoch) {
  return smoke.memory_from() == "driver" ? epoch.driver_bytes()
                                         : epoch.footprint_bytes();
}

ExitCode Run(const Console& console, const SmokeArguments& arguments) {
  v1::Study study;
  v1::SmokeOptions& options = *study.mutable_smoke();
  options.set_rows(arguments.rows);
  if (!arguments.against.empty()) {
    auto reference = ReadSmokeReference(arguments.against);
    if (!reference.ok()) {
      return console.Fail(ExitCode::kBadInput, reference.status(),
                          "Nothing was submitted.");
    }
    *options.mutable_against() = *std::move(reference);
  }
  const absl::Status added =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  return RunStudy(console, arguments.study, study, PrintSmoke);
}

}  // namespace

void PrintSmoke(const v1::StudyResult& result, const Console& console) {
  if (!result.has_smoke()) return;
  const v1::SmokeResult& smoke = result.smoke();
  Table table({"EPOCH", "LIVE", "DRIVER", "FOOTPRINT", "SWAP", "HEAT",
               "PRESSURE", "STEP"});
  for (const v1::SmokeEpoch& epoch : smoke.epochs()) {
    table.Add({absl::StrCat(epoch.epoch()),
               BytesOr(epoch.has_allocated_bytes(), epoch.allocated_bytes()),
               BytesOr(epoch.has_driver_bytes(), epoch.driver_bytes()),
               BytesOr(epoch.has_footprint_bytes(), epoch.footprint_bytes()),
               BytesOr(epoch.has_swap_used_bytes(), epoch.swap_used_bytes()),
               TextOr(epoch.thermal()), TextOr(epoch.memory_pressure()),
               absl::StrFormat("%.3g s", epoch.step_seconds())});
  }
  table.Print(console.out, 0);
  console.out << absl::StrFormat(
      "%d rows, %d steps an epoch on %s; memory by the %s: %+.1f %%\n",
      smoke.rows(), smoke.steps_per_epoch(), Printable(smoke.device()),
      Printable(smoke.memory_from()), 100 * smoke.memory_growth());
}

SvgChart MemoryChart(const v1::SmokeResult& smoke) {
  constexpr double kMiB = 1 << 20;
  SvgChart chart;
  chart.title = "Memory after each epoch";
  chart.x_name = "epoch";
  chart.y_name = "MiB";
  SvgChart::Curve live{"live tensors", {}, false}, driver{"driver", {}, false},
      footprint{"footprint", {}, false};
  for (const v1::SmokeEpoch& epoch : smoke.epochs()) {
    const auto add = [&](bool told, int64_t bytes, SvgChart::Curve& curve) {
      if (told) {
        curve.points.emplace_back(epoch.epoch(),
                                  static_cast<double>(bytes) / kMiB);
      }
    };
    add(epoch.has_allocated_bytes(), epoch.allocated_bytes(), live);
    add(epoch.has_driver_bytes(), epoch.driver_bytes(), driver);
    add(epoch.has_footprint_bytes(), epoch.footprint_bytes(), footprint);
  }
  for (SvgChart::Curve* curve : {&live, &driver, &footprint}) {
    if (!curve->points.empty()) chart.curves.push_back(std::move(*curve));
  }
  return chart;
}

namespace {

// The text of a result as the API has it: mpsctl's own JSON shows the job's
// spec as an object.
std::string AsTheApiHasIt(const std::string& text) {
  auto result = nlohmann::ordered_json::parse(text, nullptr, false);
  const nlohmann::ordered_json::json_pointer environment("/smoke/environment");
  if (!result.is_object() || !result.contains(environment)) return text;
  auto& told = result[environment];
  if (!told.is_object() || !told.contains("spec")) return text;
  told["spec_json"] = told["spec"].dump();
  told.erase("spec");
  return result.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<v1::SmokeReference> ReadSmokeReference(const std::string& file) {
  const auto text = base::ReadSmallFile(file, limits::kStudyResultBytes);
  if (!text.ok()) return text.status();
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;  // of a newer mpsd
  v1::StudyResult result;
  if (base::NestsTooDeep(*text) ||
      !google::protobuf::util::JsonStringToMessage(AsTheApiHasIt(*text),
                                                   &result, lenient)
           .ok() ||
      !result.has_smoke()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file,
        ": expected a smoke's result, as `mpsctl smoke JOB --json` prints it"));
  }
  const v1::SmokeResult& smoke = result.smoke();
  v1::SmokeReference reference;
  reference.set_device(smoke.device());
  *reference.mutable_environment() = smoke.environment();
  for (const v1::SmokeEpoch& epoch : smoke.epochs()) {
    if (reference.epoch_bytes_size() == kMostEpochs) break;
    reference.add_epoch_bytes(static_cast<double>(CountedBytes(smoke, epoch)));
  }
  reference.set_memory_from(smoke.memory_from());
  reference.set_step_seconds(smoke.step_seconds().median());
  return reference;
}

void AddSmoke(CLI::App& app, Action* action) {
  auto arguments = std::make_shared<SmokeArguments>();
  CLI::App* verb = app.add_subcommand(
      "smoke", "Ten short epochs of a slice: does memory stay where it is?");
  DeclareStudy(*verb, &arguments->study);
  verb->add_option("--rows", arguments->rows,
                   "Of the data, from the beginning; by default those of four "
                   "steps")
      ->type_name("N")
      ->check(CLI::Range(1, kMostRows));
  verb->add_option("--against", arguments->against,
                   "Another machine's result, to compare with")
      ->type_name("RESULT.json")
      ->check(Given);
  verb->callback([=] {
    *action = [=](const Console& console) { return Run(console, *arguments); };
  });
}

}  // namespace mpsd::client
