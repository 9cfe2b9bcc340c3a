// SPDX-License-Identifier: Apache-2.0
#include "tests/client/fake_runbook.h"

#include "tests/client/fake_failures.h"

namespace mpsd::client {

FakeRunbook::Status FakeRunbook::Diagnose(Context*,
                                          const v1::DiagnoseRequest* request,
                                          v1::Diagnosis* response) {
  absl::MutexLock lock(&mutex_);
  asked.push_back(*request);
  if (!diagnoses.empty()) *response = diagnoses.front();
  if (diagnoses.size() > 1) diagnoses.erase(diagnoses.begin());
  return Failure("Diagnose");
}

FakeRunbook::Status FakeRunbook::Plan(
    Context* context, const v1::PlanRequest* request,
    grpc::ServerWriter<v1::PlanEvent>* writer) {
  std::function<void(Context*)> on_plan;
  {
    absl::MutexLock lock(&mutex_);
    plan_requests.push_back(*request);
    if (busy-- > 0) {
      return Status(grpc::StatusCode::UNAVAILABLE,
                    "mpsd makes 2 plans at a time, and as many are under "
                    "way: plan again in a minute");
    }
    for (const v1::PlanEvent& event : plan_events) writer->Write(event);
    on_plan = this->on_plan;
  }
  if (on_plan) on_plan(context);
  absl::MutexLock lock(&mutex_);
  return Failure("Plan");
}

FakeRunbook::Status FakeRunbook::GetStudyResult(
    Context*, const v1::GetStudyResultRequest* request,
    v1::StudyResult* response) {
  absl::MutexLock lock(&mutex_);
  *response = study_results.empty() ? study_result : study_results.front();
  if (!study_results.empty()) study_results.erase(study_results.begin());
  response->set_job_id(request->id());
  return Failure("GetStudyResult");
}

FakeRunbook::Status FakeRunbook::Failure(const std::string& method) {
  return FailureOf(fail_, method);
}

}  // namespace mpsd::client
