// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/model_service.h"

#include <string>
#include <utility>

#include "server/rpc/audit_detail.h"
#include "server/rpc/model_calls.h"
#include "server/rpc/pull_stream.h"
#include "server/rpc/seen_blobs.h"
#include "server/rpc/source_stream.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* ModelService::Push(
    grpc::CallbackServerContext* context, const v1::PushModelRequest* request,
    v1::PushModelResponse* response) {
  return Answer(context, gate_, hosts_.submits,
                {"ModelService.Push", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  SeenBlobs usable(blobs_, accounts_.ledger, call.rights);
                  return PushModel(book_, reader_, usable, accounts_, *request,
                                   call, *response);
                });
}

grpc::ServerWriteReactor<v1::PullModelProgress>* ModelService::Pull(
    grpc::CallbackServerContext* context, const v1::PullModelRequest* request) {
  return SourceStream<v1::PullModelProgress>::Start(
      *context, gate_, streams_,
      {"ModelService.Pull", "", AuditDetail(*request)},
      [&](const access::Rights& rights, Wake wake) {
        const auto describe = [this, rights](const std::string& id,
                                             v1::Model& model) {
          FillModel(book_, reader_, rights, id, model);
        };
        return MakePullSource(puller_, rights, accounts_.LimitsOf(rights),
                              *request, describe, std::move(wake));
      });
}

grpc::ServerUnaryReactor* ModelService::CancelPull(
    grpc::CallbackServerContext* context, const v1::CancelPullRequest* request,
    v1::CancelPullResponse*) {
  return Answer(context, gate_, hosts_.changes,
                {"ModelService.CancelPull", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  return rpc::CancelPull(puller_, call.rights, *request);
                });
}

grpc::ServerUnaryReactor* ModelService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  return Answer(context, gate_, hosts_.reads, {"ModelService.ListModels"},
                [=, this](Call& call) {
                  return rpc::ListModels(book_, reader_, call.rights, *request,
                                         *response);
                });
}

grpc::ServerUnaryReactor* ModelService::RemoveModel(
    grpc::CallbackServerContext* context, const v1::RemoveModelRequest* request,
    v1::RemoveModelResponse* response) {
  return Answer(context, gate_, hosts_.deletions,
                {"ModelService.RemoveModel", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  return rpc::RemoveModel(book_, call.rights, *request,
                                          *response);
                });
}

}  // namespace mpsd::rpc
