// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/runbook_calls.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/report/runbook.h"
#include "server/planner/doctor.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/job_calls.h"

namespace mpsd::rpc {

absl::Status GetStudyResult(jobs::JobReader& reader,
                            const v1::GetStudyResultRequest& request,
                            v1::StudyResult& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(const jobs::Job job, reader.Get(request.id()));
  if (!jobs::IsStudy(job.kind)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.id,
        " is a training job: `mpsctl show` and `mpsctl report` show ",
        "it, and `mpsctl download` gets its result"));
  }
  if (job.state != jobs::State::kSucceeded) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, ", a ", std::string(jobs::Name(job.kind)),
                     ", is ", std::string(jobs::Name(job.state)),
                     ": it has a result once it has SUCCEEDED"));
  }
  // The worker wrote it: a link that it made must not lead elsewhere.
  const base::ReadRoots own({job.output_path});
  ASSIGN_OR_RETURN(const std::string json,
                   base::ReadSmallFile(
                       std::filesystem::path(job.output_path) / "result.json",
                       limits::kStudyResultBytes, &own));
  absl::Status decoded = DecodeStudyResult(job.kind, json, response);
  response.set_job_id(job.id);
  return decoded;
}

namespace {

void Fill(const runbook::Finding& finding, v1::Finding& out) {
  out.set_name(ValidUtf8(finding.name));
  // The numbers are the same in both.
  out.set_verdict(static_cast<v1::Verdict>(finding.verdict));
  out.set_found(ValidUtf8(finding.found));
  out.set_advice(ValidUtf8(finding.advice));
  if (finding.value) out.set_value(*finding.value);
  if (finding.threshold) out.set_threshold(*finding.threshold);
  out.set_unit(finding.unit);
}

void Fill(const doctor::Variable& variable, v1::EnvironmentVariable& out) {
  out.set_name(variable.name);
  if (variable.service) out.set_service(*variable.service);
  if (variable.daemon) out.set_daemon(*variable.daemon);
  if (variable.expected) out.set_expected(*variable.expected);
  if (variable.worker) out.set_worker(*variable.worker);
  out.set_differs(!variable.drift.empty());
}

}  // namespace

absl::Status Diagnose(doctor::Examiner& examiner, Call& call,
                      const v1::DiagnoseRequest& request,
                      v1::Diagnosis& response) {
  ASSIGN_OR_RETURN(const runbook::Thresholds thresholds,
                   runbook::Thresholds::FromMap({request.thresholds().begin(),
                                                 request.thresholds().end()}));
  ASSIGN_OR_RETURN(const doctor::Facts facts,
                   examiner.Examine(request.deep(), call.wanted));
  const doctor::Findings findings = doctor::Judge(facts, thresholds);
  response.set_verdict(static_cast<v1::Verdict>(runbook::Worst(findings)));
  for (const runbook::Finding& finding : findings) {
    if (response.findings_size() == limits::kFindings) break;
    Fill(finding, *response.add_findings());
  }
  for (const doctor::Variable& variable : doctor::CompareEnvironments(facts)) {
    Fill(variable, *response.add_environment());
  }
  response.set_selftest_running(facts.selftest.running);
  // The client compares it with its own clock.
  ToProto(absl::Now(), *response.mutable_time());
  return absl::OkStatus();
}

namespace {

constexpr size_t kThresholdNameBytes = 128;

absl::Status CheckThresholds(const v1::PlanRequest& request) {
  RETURN_IF_ERROR(CheckCount("thresholds", request.thresholds().size(),
                             limits::kThresholds));
  for (const auto& [name, value] : request.thresholds()) {
    RETURN_IF_ERROR(CheckText("thresholds", name, kThresholdNameBytes));
    if (!std::isfinite(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "thresholds: '", base::Quotable(name), "': expected a number"));
    }
  }
  return absl::OkStatus();
}

// The probe's result, as JSON.
absl::StatusOr<std::string> ResultOfProbe(jobs::JobReader& reader,
                                          const access::Rights& rights,
                                          const std::string& id) {
  RETURN_IF_ERROR(CheckId("probe_id", id));
  constexpr access::Method kRead("RunbookService.GetStudyResult");
  ASSIGN_OR_RETURN(const std::string owner, reader.OwnerOf(id));
  RETURN_IF_ERROR(access::CheckOwner(kRead.rule(), rights, id, owner));
  v1::GetStudyResultRequest request;
  request.set_id(id);
  v1::StudyResult result;
  RETURN_IF_ERROR(GetStudyResult(reader, request, result));
  if (!result.has_probe()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "probe_id: job ", id,
        " is a study of another kind: name a probe (`mpsctl plan --probe`)"));
  }
  std::optional<std::string> json = ProtoJson(result.probe());
  if (!json) return absl::InternalError("the probe's result is not JSON");
  return *std::move(json);
}

absl::StatusOr<planner::PlanRequest> Checked(jobs::JobReader& reader,
                                             jobs::UserLedger* ledger,
                                             const access::Rights& rights,
                                             v1::PlanRequest& request) {
  RETURN_IF_ERROR(CheckThresholds(request));
  planner::PlanRequest checked;
  ASSIGN_OR_RETURN(
      checked.submission,
      SubmissionOf(reader, ledger, *request.mutable_submission(), rights));
  // A plan is for the training, whatever study the request names.
  checked.submission.kind = jobs::JobKind::kTraining;
  checked.submission.study_json.clear();
  checked.thresholds.insert(request.thresholds().begin(),
                            request.thresholds().end());
  if (rights.sees_own_alone()) {
    checked.may_read = [rights](const std::string& owner) {
      return rights.MayRead(owner);
    };
  }
  if (request.probe_id().empty()) return checked;
  checked.probe_id = request.probe_id();
  ASSIGN_OR_RETURN(checked.probe_json,
                   ResultOfProbe(reader, rights, request.probe_id()));
  return checked;
}

void FillQueue(const planner::PlanQueue& queue, v1::Plan& plan) {
  v1::PlanQueue& out = *plan.mutable_queue();
  out.set_jobs_ahead(static_cast<int32_t>(queue.jobs_ahead));
  out.set_why(ValidUtf8(queue.why));
  for (const std::string& what : queue.unknown) {
    out.add_unknown(ValidUtf8(what));
  }
  if (!queue.wait) return;
  const double wait = absl::ToDoubleSeconds(*queue.wait);
  out.set_wait_seconds(wait);
  if (plan.time().has_total_seconds()) {
    out.set_finish_seconds(wait + plan.time().total_seconds());
  }
}

absl::Status FillPlan(const planner::FinishedPlan& made, v1::Plan& plan) {
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;  // of a newer worker
  const auto parsed = JsonStringToMessage(made.json, &plan, lenient);
  if (!parsed.ok()) {
    return absl::InternalError(absl::StrCat(
        "the process that plans (mpsd-worker --plan) made no plan: ",
        base::Quotable(std::string(parsed.message()))));
  }
  FillQueue(made.queue, plan);
  return absl::OkStatus();
}

class PlanSource : public Source<v1::PlanEvent> {
 public:
  PlanSource(planner::Planner& planner, jobs::JobReader& reader,
             jobs::UserLedger* ledger, const access::Rights& rights,
             v1::PlanRequest request, Wake wake)
      : planner_(planner),
        reader_(reader),
        ledger_(ledger),
        rights_(rights),
        request_(std::move(request)),
        wake_(std::move(wake)) {}

  absl::StatusOr<Pull> Next(v1::PlanEvent& message) override {
    if (done_) return Pull::kEnd;
    RETURN_IF_ERROR(BeginOnce());
    ASSIGN_OR_RETURN(std::optional<planner::PlanNews> news, watch_->Next());
    if (!news) return Pull::kWait;
    if (!news->plan) {
      message.set_stage(ValidUtf8(news->stage));
      return Pull::kMessage;
    }
    done_ = true;
    RETURN_IF_ERROR(FillPlan(*news->plan, *message.mutable_plan()));
    return Pull::kMessage;
  }

 private:
  absl::Status BeginOnce() {
    if (watch_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(planner::PlanRequest checked,
                     Checked(reader_, ledger_, rights_, request_));
    ASSIGN_OR_RETURN(watch_, planner_.Plan(std::move(checked), wake_));
    return absl::OkStatus();
  }

  planner::Planner& planner_;
  jobs::JobReader& reader_;
  jobs::UserLedger* const ledger_;
  const access::Rights rights_;
  v1::PlanRequest request_;
  const Wake wake_;
  std::unique_ptr<planner::PlanWatch> watch_;  // null before the first Next
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Source<v1::PlanEvent>> MakePlanSource(
    planner::Planner& planner, jobs::JobReader& reader,
    jobs::UserLedger* ledger, const access::Rights& rights,
    v1::PlanRequest request, Wake wake) {
  return std::make_unique<PlanSource>(planner, reader, ledger, rights,
                                      std::move(request), std::move(wake));
}

}  // namespace mpsd::rpc
