// SPDX-License-Identifier: Apache-2.0
#include "client/smoke.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

constexpr int kMostRows = 1'000'000;

struct SmokeArguments {
  StudyArguments study;
  int32_t rows = 0;
};

std::string BytesOr(bool told, int64_t bytes) {
  return told ? Bytes(bytes) : "-";
}

std::string TextOr(const std::string& text) {
  return text.empty() ? "-" : text;
}

ExitCode Run(const Console& console, const SmokeArguments& arguments) {
  v1::Study study;
  v1::SmokeOptions& options = *study.mutable_smoke();
  options.set_rows(arguments.rows);
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

void AddSmoke(Command& app, Action* action) {
  auto arguments = std::make_shared<SmokeArguments>();
  Command* verb = app.add_subcommand(
      "smoke", "Ten short epochs of a slice: does memory stay where it is?");
  DeclareStudy(*verb, &arguments->study);
  verb->add_option("--rows", arguments->rows,
                   "Of the data, from the beginning; by default those of four "
                   "steps")
      ->type_name("N")
      ->check(Range(1, kMostRows));
  verb->callback([=] {
    *action = [=](const Console& console) { return Run(console, *arguments); };
  });
}

}  // namespace mpsd::client
