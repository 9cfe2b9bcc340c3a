// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/runbook_service.h"

#include <utility>

#include "server/rpc/audit_detail.h"
#include "server/rpc/diagnose_call.h"
#include "server/rpc/plan_stream.h"
#include "server/rpc/source_stream.h"
#include "server/rpc/study_calls.h"

namespace mpsd::rpc {

grpc::ServerWriteReactor<v1::PlanEvent>* RunbookService::Plan(
    grpc::CallbackServerContext* context, const v1::PlanRequest* request) {
  return SourceStream<v1::PlanEvent>::Start(
      *context, gate_, streams_, {"RunbookService.Plan"},
      [&](const access::Rights& rights, Wake wake) {
        return MakePlanSource(planner_, reader_, accounts_.ledger, rights,
                              *request, std::move(wake));
      });
}

grpc::ServerUnaryReactor* RunbookService::Diagnose(
    grpc::CallbackServerContext* context, const v1::DiagnoseRequest* request,
    v1::Diagnosis* response) {
  const access::Method method =
      request->deep() ? access::Method("RunbookService.Diagnose (deep)")
                      : access::Method("RunbookService.Diagnose");
  return Answer(context, gate_, diagnoses_, {method, "", AuditDetail(*request)},
                [=, this](Call& call) {
                  return rpc::Diagnose(examiner_, call, *request, *response);
                });
}

grpc::ServerUnaryReactor* RunbookService::GetStudyResult(
    grpc::CallbackServerContext* context,
    const v1::GetStudyResultRequest* request, v1::StudyResult* response) {
  return Answer(context, gate_, reads_,
                {"RunbookService.GetStudyResult", request->id()},
                [=, this](Call&) {
                  return rpc::GetStudyResult(reader_, *request, *response);
                });
}

}  // namespace mpsd::rpc
