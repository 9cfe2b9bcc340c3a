// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_
#define MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_

#include "mpsd/v1/artifacts.grpc.pb.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/stream_host.h"

namespace mpsd::rpc {

// mpsd.v1.ArtifactService. `files` is a host of its own: hashing a checkpoint
// must not hold up the watchers. The borrowed objects must outlive it.
class ArtifactService final : public v1::ArtifactService::CallbackService {
 public:
  ArtifactService(jobs::JobManager& manager, jobs::BlobUploads& blobs,
                  StreamHost& files)
      : manager_(manager), blobs_(blobs), files_(files) {}

  grpc::ServerUnaryReactor* FindBlobs(grpc::CallbackServerContext* context,
                                      const v1::FindBlobsRequest* request,
                                      v1::FindBlobsResponse* response) override;
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(
      grpc::CallbackServerContext* context,
      v1::UploadResponse* response) override;
  grpc::ServerWriteReactor<v1::DownloadResponse>* Download(
      grpc::CallbackServerContext* context,
      const v1::DownloadRequest* request) override;

 private:
  jobs::JobManager& manager_;
  jobs::BlobUploads& blobs_;
  StreamHost& files_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_
