// SPDX-License-Identifier: Apache-2.0
#include "core/study/study.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/study/batch_sweep.h"
#include "core/study/device_comparison.h"
#include "core/study/probe.h"
#include "core/study/profile.h"
#include "core/study/smoke.h"

namespace mpsd::study {
namespace {

// A study ended early at the observer's request: not an error of the job.
constexpr absl::StatusCode kStopped = absl::StatusCode::kCancelled;

absl::StatusOr<Found> Look(wire::JobKind kind, const Study& study) {
  switch (kind) {
    case wire::JobKind::kProbe:
      return Probe(study);
    case wire::JobKind::kBatchSweep:
      return BatchSweep(study);
    case wire::JobKind::kDeviceComparison:
      return CompareDevices(study);
    case wire::JobKind::kProfile:
      return Profile(study);
    case wire::JobKind::kSmoke:
      return Smoke(study);
    case wire::JobKind::kTraining:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "this worker has no study with the number ", static_cast<int>(kind)));
}

// The name of the member of StudyResult that a study of `kind` fills.
const char* MemberOf(wire::JobKind kind) {
  switch (kind) {
    case wire::JobKind::kTraining:
      break;
    case wire::JobKind::kProbe:
      return "probe";
    case wire::JobKind::kBatchSweep:
      return "batch_sweep";
    case wire::JobKind::kDeviceComparison:
      return "device_comparison";
    case wire::JobKind::kProfile:
      return "profile";
    case wire::JobKind::kSmoke:
      return "smoke";
  }
  return "";
}

absl::Status WriteResult(const std::filesystem::path& folder,
                         wire::JobKind kind, Found found) {
  runbook::SortBySeverity(found.findings);
  nlohmann::json findings = nlohmann::json::array();
  for (const runbook::Finding& finding : found.findings) {
    if (findings.size() == limits::kFindings) break;
    findings.push_back(runbook::ToJson(finding));
  }
  const nlohmann::json result = {
      {"verdict", runbook::NameOf(runbook::Worst(found.findings))},
      {"findings", std::move(findings)},
      {MemberOf(kind), std::move(found.result)}};
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
  ASSIGN_OR_RETURN(std::unique_ptr<base::AtomicFile> file,
                   base::AtomicFile::Create(folder / "result.json"));
  absl::Status written = file->Append(text);
  return written.ok() ? file->Commit() : written;
}

}  // namespace

absl::StatusOr<train::RunResult> Run(wire::JobKind kind,
                                     const std::string& options,
                                     spec::TrainSpec spec,
                                     const train::RunContext& context,
                                     train::Observer& observer) {
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
  absl::StatusOr<Found> found = Look(kind, study);
  train::RunResult result;
  if (found.status().code() == kStopped) {
    result.stopped = observer.stop_request();
    return result;
  }
  if (!found.ok()) return found.status();
  RETURN_IF_ERROR(WriteResult(context.out_dir, kind, *std::move(found)));
  result.output_path = context.out_dir.string();
  result.output_kind = report::OutputKind::kStudy;
  return result;
}

}  // namespace mpsd::study
