// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/daemon_service.h"

#include "server/rpc/audit_detail.h"
#include "server/rpc/collect_calls.h"
#include "server/rpc/daemon_info.h"
#include "server/rpc/queue_calls.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* DaemonService::Info(
    grpc::CallbackServerContext* context, const v1::InfoRequest* request,
    v1::InfoResponse* response) {
  return Answer(context, gate_, reads_, {"DaemonService.Info"},
                [=, this](Call& call) {
                  absl::Status told = DaemonInfo(reader_, facts_, *response);
                  if (collector_ != nullptr) {
                    const jobs::StateBytes bytes = collector_->Bytes();
                    response->set_state_bytes(bytes.used);
                    response->set_state_budget_bytes(bytes.budget);
                  }
                  if (!told.ok() || !request->you()) return told;
                  return accounts_.Describe(call.rights, reader_,
                                            *response->mutable_you());
                });
}

grpc::ServerUnaryReactor* DaemonService::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest* request,
    v1::DrainResponse*) {
  return Answer(
      context, gate_, changes_,
      {"DaemonService.Drain", "", AuditDetail(*request)},
      [=, this](Call& call) { return DrainQueue(manager_, *request, call); });
}

grpc::ServerUnaryReactor* DaemonService::Undrain(
    grpc::CallbackServerContext* context, const v1::UndrainRequest*,
    v1::UndrainResponse*) {
  return Answer(context, gate_, changes_, {"DaemonService.Undrain"},
                [this](Call&) { return manager_.UndrainQueue(); });
}

grpc::ServerUnaryReactor* DaemonService::PlanCollection(
    grpc::CallbackServerContext* context, const v1::PlanCollectionRequest*,
    v1::PlanCollectionResponse* response) {
  return Answer(context, gate_, reads_, {"DaemonService.PlanCollection"},
                [=, this](Call& call) {
                  return rpc::PlanCollection(collector_, call.rights,
                                             *response);
                });
}

grpc::ServerUnaryReactor* DaemonService::Collect(
    grpc::CallbackServerContext* context, const v1::CollectRequest*,
    v1::CollectResponse* response) {
  return Answer(context, gate_, collections_, {"DaemonService.Collect"},
                [=, this](Call& call) {
                  return rpc::Collect(collector_, call, *response);
                });
}

}  // namespace mpsd::rpc
