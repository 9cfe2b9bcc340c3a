// SPDX-License-Identifier: Apache-2.0
#include "core/study/study.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::study {
namespace {

// A study ended early at the observer's request: not an error of the job.
constexpr absl::StatusCode kStopped = absl::StatusCode::kCancelled;

// A kind of study, and the member of StudyResult that it fills.
struct Kind {
  wire::JobKind kind;
  const char* member;
  absl::StatusOr<Found> (*look)(const Study&);
};
constexpr Kind kKinds[] = {
    {wire::JobKind::kProbe, "probe", Probe},
    {wire::JobKind::kBatchSweep, "batch_sweep", BatchSweep},
    {wire::JobKind::kDeviceComparison, "device_comparison", CompareDevices},
    {wire::JobKind::kProfile, "profile", Profile},
    {wire::JobKind::kSmoke, "smoke", Smoke},
    {wire::JobKind::kGenerate, "generate", Generate},
};

absl::Status WriteResult(const std::filesystem::path& folder,
                         const char* member, Found found) {
  runbook::SortBySeverity(found.findings);
  nlohmann::json findings = nlohmann::json::array();
  for (const runbook::Finding& finding : found.findings) {
    if (findings.size() == limits::kFindings) break;
    findings.push_back(runbook::ToJson(finding));
  }
  const nlohmann::json result = {
      {"verdict", runbook::NameOf(runbook::Worst(found.findings))},
      {"findings", std::move(findings)},
      {member, std::move(found.result)}};
  const std::string text =
      result.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > limits::kStudyResultBytes) {
    return absl::InternalError(
        absl::StrCat("the study's result has ", text.size(), " bytes, at most ",
                     limits::kStudyResultBytes, " are kept"));
  }
  // A study that keeps only its result has not made its folder.
  std::error_code ignored;  // Create names the path
  std::filesystem::create_directories(folder, ignored);
  return base::WriteFileAtomic(folder / "result.json", text);
}

}  // namespace

runbook::Finding Judge(runbook::Finding finding, bool bad,
                       runbook::Verdict worse, std::string advice) {
  finding.verdict = bad ? worse : runbook::Verdict::kPass;
  if (bad) finding.advice = std::move(advice);
  return finding;
}

absl::StatusOr<train::RunResult> Run(wire::JobKind kind,
                                     const std::string& options,
                                     spec::TrainSpec spec,
                                     const train::RunContext& context,
                                     train::Observer& observer) {
  const Kind* asked =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [kind](const Kind& known) { return known.kind == kind; });
  if (asked == std::end(kKinds)) {
    return absl::UnimplementedError(absl::StrCat(
        "this worker has no study with the number ", static_cast<int>(kind)));
  }
  nlohmann::json parsed = base::ParseTree<nlohmann::json>(options);
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        "study: its options are not a JSON object");
  }
  ASSIGN_OR_RETURN(runbook::Thresholds thresholds,
                   runbook::Thresholds::FromJson(
                       parsed.value("thresholds", nlohmann::json::object())));
  std::error_code error;
  std::filesystem::create_directories(context.out_dir, error);
  if (error) {
    return base::ErrnoStatus(error.value(), context.out_dir.string());
  }
  const Study study = {std::move(parsed), std::move(thresholds),
                       std::move(spec), context, observer};
  absl::StatusOr<Found> found = asked->look(study);
  train::RunResult result;
  if (found.status().code() == kStopped) {
    result.stopped = observer.stop_request();
    return result;
  }
  if (!found.ok()) return found.status();
  RETURN_IF_ERROR(
      WriteResult(context.out_dir, asked->member, *std::move(found)));
  result.output_path = context.out_dir.string();
  result.output_kind = report::OutputKind::kStudy;
  return result;
}

}  // namespace mpsd::study
