// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sweep_service.h"

#include "server/rpc/audit_detail.h"
#include "server/rpc/sweep_calls.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* SweepService::CreateSweep(
    grpc::CallbackServerContext* context, const v1::CreateSweepRequest* request,
    v1::Sweep* response) {
  return Answer(context, gate_, hosts_.submits,
                {"SweepService.CreateSweep", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  call.limits = accounts_.LimitsOf(call.rights);
                  return rpc::CreateSweep(book_, reader_, accounts_.ledger,
                                          *request, call, *response);
                });
}

grpc::ServerUnaryReactor* SweepService::GetSweep(
    grpc::CallbackServerContext* context, const v1::GetSweepRequest* request,
    v1::Sweep* response) {
  return Answer(context, gate_, hosts_.reads, {"SweepService.GetSweep"},
                [=, this](Call& call) {
                  return rpc::GetSweep(book_, call.rights, *request, *response);
                });
}

grpc::ServerUnaryReactor* SweepService::ListSweeps(
    grpc::CallbackServerContext* context, const v1::ListSweepsRequest* request,
    v1::ListSweepsResponse* response) {
  return Answer(context, gate_, hosts_.reads, {"SweepService.ListSweeps"},
                [=, this](Call& call) {
                  return rpc::ListSweeps(book_, call.rights, *request,
                                         *response);
                });
}

grpc::ServerUnaryReactor* SweepService::CancelSweep(
    grpc::CallbackServerContext* context, const v1::CancelSweepRequest* request,
    v1::Sweep* response) {
  return Answer(context, gate_, hosts_.changes,
                {"SweepService.CancelSweep", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  return rpc::CancelSweep(book_, call.rights, *request,
                                          *response);
                });
}

}  // namespace mpsd::rpc
