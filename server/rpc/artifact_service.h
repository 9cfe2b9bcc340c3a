// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_
#define MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_

#include "mpsd/v1/artifacts.grpc.pb.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// mpsd.v1.ArtifactService. Downloads and uploads each have a host of their own,
// so that a call that hashes a checkpoint or waits for a flush delays neither
// the other kind nor the watchers. The borrowed objects must outlive the
// service.
class ArtifactService final : public v1::ArtifactService::CallbackService {
 public:
  ArtifactService(jobs::JobReader& reader, jobs::BlobUploads& blobs,
                  CallHost& reads, StreamHost& downloads, StreamHost& uploads)
      : reader_(reader),
        blobs_(blobs),
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
  jobs::JobReader& reader_;
  jobs::BlobUploads& blobs_;
  CallHost& reads_;
  StreamHost& downloads_;
  StreamHost& uploads_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_ARTIFACT_SERVICE_H_
