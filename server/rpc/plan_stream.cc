// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/plan_stream.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"
#include "mpsd/v1/runbook.pb.h"
#include "server/rpc/check.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/status.h"
#include "server/rpc/study_calls.h"

namespace mpsd::rpc {
namespace {

constexpr size_t kThresholdNameBytes = 128;

absl::Status CheckThresholds(const v1::PlanRequest& request) {
  if (request.thresholds().size() > limits::kThresholds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "thresholds: has ", request.thresholds().size(), " entries, at most ",
        limits::kThresholds, " are allowed"));
  }
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
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!MessageToJsonString(result.probe(), &json, options).ok()) {
    return absl::InternalError("the probe's result is not JSON");
  }
  return json;
}

absl::StatusOr<jobs::PlanRequest> Checked(jobs::JobReader& reader,
                                          jobs::UserLedger* ledger,
                                          const access::Rights& rights,
                                          const v1::PlanRequest& request) {
  RETURN_IF_ERROR(CheckThresholds(request));
  ASSIGN_OR_RETURN(jobs::SubmitRequest submission,
                   SubmissionOf(reader, ledger, request.submission(), rights));
  jobs::PlanRequest checked;
  checked.submission = std::move(submission);
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
  ASSIGN_OR_RETURN(std::string probe,
                   ResultOfProbe(reader, rights, request.probe_id()));
  checked.probe_id = request.probe_id();
  checked.probe_json = std::move(probe);
  return checked;
}

void ToProto(const jobs::PlanQueue& queue, v1::Plan& plan) {
  v1::PlanQueue& out = *plan.mutable_queue();
  out.set_jobs_ahead(static_cast<int32_t>(queue.jobs_ahead));
  out.set_why(ValidUtf8(queue.why));
  for (const std::string& what : queue.not_told) {
    out.add_not_told(ValidUtf8(what));
  }
  if (!queue.wait) return;
  const double wait = absl::ToDoubleSeconds(*queue.wait);
  out.set_wait_seconds(wait);
  if (plan.time().has_total_seconds()) {
    out.set_finish_seconds(wait + plan.time().total_seconds());
  }
}

absl::Status FillPlan(const jobs::FinishedPlan& made, v1::Plan& plan) {
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;  // of a newer worker
  const auto parsed = JsonStringToMessage(made.json, &plan, lenient);
  if (!parsed.ok()) {
    return absl::InternalError(absl::StrCat(
        "the process that plans (mpsd-worker --plan) made no plan: ",
        base::Quotable(std::string(parsed.message()))));
  }
  ToProto(made.queue, plan);
  return absl::OkStatus();
}

class PlanSource : public Source<v1::PlanEvent> {
 public:
  PlanSource(jobs::Planner* planner, jobs::JobReader& reader,
             jobs::UserLedger* ledger, const access::Rights& rights,
             const v1::PlanRequest& request, Wake wake)
      : planner_(planner),
        reader_(reader),
        ledger_(ledger),
        rights_(rights),
        request_(request),
        wake_(std::move(wake)) {}

  absl::StatusOr<Pull> Next(v1::PlanEvent& message) override {
    if (done_) return Pull::kEnd;
    RETURN_IF_ERROR(BeginOnce());
    ASSIGN_OR_RETURN(std::optional<jobs::PlanNews> news, watch_->Next());
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
    ASSIGN_OR_RETURN(jobs::PlanRequest checked,
                     Checked(reader_, ledger_, rights_, request_));
    if (planner_ == nullptr) {
      return absl::UnimplementedError("this mpsd makes no plans");
    }
    ASSIGN_OR_RETURN(std::unique_ptr<jobs::PlanWatch> watch,
                     planner_->Plan(std::move(checked), wake_));
    watch_ = std::move(watch);
    return absl::OkStatus();
  }

  jobs::Planner* const planner_;
  jobs::JobReader& reader_;
  jobs::UserLedger* const ledger_;
  const access::Rights rights_;
  const v1::PlanRequest& request_;  // outlives the source
  const Wake wake_;
  std::unique_ptr<jobs::PlanWatch> watch_;  // null before the first Next
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Source<v1::PlanEvent>> MakePlanSource(
    jobs::Planner* planner, jobs::JobReader& reader, jobs::UserLedger* ledger,
    const access::Rights& rights, const v1::PlanRequest& request, Wake wake) {
  return std::make_unique<PlanSource>(planner, reader, ledger, rights, request,
                                      std::move(wake));
}

}  // namespace mpsd::rpc
