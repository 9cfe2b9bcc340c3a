// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/artifact_service.h"

#include "server/rpc/download_reactor.h"
#include "server/rpc/find_blobs.h"
#include "server/rpc/seen_blobs.h"
#include "server/rpc/sink_stream.h"
#include "server/rpc/source_stream.h"
#include "server/rpc/upload_reactor.h"

namespace mpsd::rpc {

std::unique_ptr<jobs::BlobUploads> ArtifactService::BlobsOf(
    const access::Rights& rights) {
  return std::make_unique<SeenBlobs>(blobs_, accounts_.ledger, rights);
}

grpc::ServerUnaryReactor* ArtifactService::FindBlobs(
    grpc::CallbackServerContext* context, const v1::FindBlobsRequest* request,
    v1::FindBlobsResponse* response) {
  return Answer(context, gate_, reads_, {"ArtifactService.FindBlobs"},
                [=, this](Call& call) {
                  return rpc::FindBlobs(*BlobsOf(call.rights),
                                        call.rights.caller().user, *request,
                                        *response);
                });
}

grpc::ServerReadReactor<v1::UploadRequest>* ArtifactService::Upload(
    grpc::CallbackServerContext* context, v1::UploadResponse* response) {
  return SinkStream<v1::UploadRequest>::Start(
      *context, gate_, uploads_, {"ArtifactService.Upload"},
      [&](const access::Rights& rights) {
        return MakeUploadSink(BlobsOf(rights), rights.caller().user, *response,
                              accounts_.BeginUpload(rights));
      });
}

grpc::ServerReadReactor<v1::UploadBatchRequest>* ArtifactService::UploadBatch(
    grpc::CallbackServerContext* context, v1::UploadBatchResponse* response) {
  return SinkStream<v1::UploadBatchRequest>::Start(
      *context, gate_, uploads_, {"ArtifactService.UploadBatch"},
      [&](const access::Rights& rights) {
        return MakeBatchSink(BlobsOf(rights), *response,
                             accounts_.BeginUpload(rights));
      });
}

grpc::ServerWriteReactor<v1::DownloadResponse>* ArtifactService::Download(
    grpc::CallbackServerContext* context, const v1::DownloadRequest* request) {
  return SourceStream<v1::DownloadResponse>::Start(
      *context, gate_, downloads_,
      {"ArtifactService.Download", request->job_id()},
      [&](const access::Rights&, const Wake&) {
        return MakeDownloadSource(reader_, *request);
      });
}

}  // namespace mpsd::rpc
