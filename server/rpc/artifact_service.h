// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_
#define MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_

#include <memory>

#include "mpsd/v1/artifacts.grpc.pb.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/gate.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"

namespace mpsd::rpc {

// mpsd.v1.ArtifactService. Downloads and uploads each have a host of their own,
// so that a call that hashes a checkpoint or waits for a flush delays neither
// the other kind nor the watchers. The borrowed objects must outlive the
// service.
class ArtifactService final : public v1::ArtifactService::CallbackService {
 public:
  ArtifactService(const Gate& gate, jobs::JobReader& reader,
                  jobs::BlobUploads& blobs, const UserAccounts& accounts,
                  CallHost& reads, StreamHost& downloads, StreamHost& uploads)
      : gate_(gate),
        reader_(reader),
        blobs_(blobs),
        accounts_(accounts),
        reads_(reads),
        downloads_(downloads),
        uploads_(uploads) {}

  grpc::ServerUnaryReactor* FindBlobs(grpc::CallbackServerContext* context,
                                      const v1::FindBlobsRequest* request,
                                      v1::FindBlobsResponse* response) override;
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(
      grpc::CallbackServerContext* context,
      v1::UploadResponse* response) override;
  grpc::ServerReadReactor<v1::UploadBatchRequest>* UploadBatch(
      grpc::CallbackServerContext* context,
      v1::UploadBatchResponse* response) override;
  grpc::ServerWriteReactor<v1::DownloadResponse>* Download(
      grpc::CallbackServerContext* context,
      const v1::DownloadRequest* request) override;

 private:
  std::unique_ptr<jobs::BlobUploads> BlobsOf(const access::Rights& rights);

  const Gate& gate_;
  jobs::JobReader& reader_;
  jobs::BlobUploads& blobs_;
  const UserAccounts& accounts_;
  CallHost& reads_;
  StreamHost& downloads_;
  StreamHost& uploads_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_
