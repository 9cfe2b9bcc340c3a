// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_MODEL_SERVICE_H_
#define MPSD_SERVER_RPC_MODEL_SERVICE_H_

#include "mpsd/v1/models.grpc.pb.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_manager.h"
#include "server/models/model_book.h"
#include "server/rpc/gate.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"

namespace mpsd::rpc {

// mpsd.v1.ModelService. A push, which may wait for the drive, runs where
// submissions do, and a removal where those of jobs do. The borrowed objects
// must outlive the service.
class ModelService final : public v1::ModelService::CallbackService {
 public:
  struct Hosts {
    CallHost& reads;
    CallHost& changes;
    CallHost& submits;
    CallHost& deletions;
  };

  // A null `puller`: pulls are off.
  ModelService(const Gate& gate, models::ModelBook& book,
               models::Puller* puller, jobs::JobReader& reader,
               jobs::BlobUploads& blobs, const UserAccounts& accounts,
               const Hosts& hosts, StreamHost& streams)
      : gate_(gate),
        book_(book),
        puller_(puller),
        reader_(reader),
        blobs_(blobs),
        accounts_(accounts),
        hosts_(hosts),
        streams_(streams) {}

  grpc::ServerUnaryReactor* Push(grpc::CallbackServerContext* context,
                                 const v1::PushModelRequest* request,
                                 v1::PushModelResponse* response) override;
  grpc::ServerWriteReactor<v1::PullModelProgress>* Pull(
      grpc::CallbackServerContext* context,
      const v1::PullModelRequest* request) override;
  grpc::ServerUnaryReactor* CancelPull(
      grpc::CallbackServerContext* context,
      const v1::CancelPullRequest* request,
      v1::CancelPullResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* RemoveModel(
      grpc::CallbackServerContext* context,
      const v1::RemoveModelRequest* request,
      v1::RemoveModelResponse* response) override;

 private:
  const Gate& gate_;
  models::ModelBook& book_;
  models::Puller* const puller_;
  jobs::JobReader& reader_;
  jobs::BlobUploads& blobs_;
  const UserAccounts& accounts_;
  const Hosts hosts_;
  StreamHost& streams_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_MODEL_SERVICE_H_
