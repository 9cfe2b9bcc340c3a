// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/logbook_service.h"

#include "core/base/clock.h"
#include "server/rpc/audit_detail.h"
#include "server/rpc/logbook_calls.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* LogbookService::SearchRecords(
    grpc::CallbackServerContext* context,
    const v1::SearchRecordsRequest* request,
    v1::SearchRecordsResponse* response) {
  return Answer(context, gate_, searches_, {"LogbookService.SearchRecords"},
                [=, this](Call& call) {
                  return rpc::SearchRecords(logbook_, call.rights, *request,
                                            base::Clock::Real().Now(),
                                            *response);
                });
}

grpc::ServerUnaryReactor* LogbookService::GetRecord(
    grpc::CallbackServerContext* context, const v1::GetRecordRequest* request,
    v1::Record* response) {
  return Answer(
      context, gate_, reads_, {"LogbookService.GetRecord", request->id()},
      [=, this](Call& call) {
        return rpc::GetRecord(logbook_, call.rights, *request, *response);
      });
}

grpc::ServerUnaryReactor* LogbookService::AddNote(
    grpc::CallbackServerContext* context, const v1::AddNoteRequest* request,
    v1::Record* response) {
  return Answer(
      context, gate_, changes_,
      {"LogbookService.AddNote", request->id(), AuditDetail(*request)},
      [=, this](Call& call) {
        return rpc::AddNote(logbook_, call.rights, *request, *response);
      });
}

grpc::ServerUnaryReactor* LogbookService::TagRecord(
    grpc::CallbackServerContext* context, const v1::TagRecordRequest* request,
    v1::Record* response) {
  return Answer(
      context, gate_, changes_,
      {"LogbookService.TagRecord", request->id(), AuditDetail(*request)},
      [=, this](Call& call) {
        return rpc::TagRecord(logbook_, call.rights, *request, *response);
      });
}

}  // namespace mpsd::rpc
