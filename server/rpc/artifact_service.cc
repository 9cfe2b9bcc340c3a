// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/artifact_service.h"

#include "server/rpc/download_reactor.h"
#include "server/rpc/find_blobs.h"
#include "server/rpc/sink_stream.h"
#include "server/rpc/source_stream.h"
#include "server/rpc/upload_reactor.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* ArtifactService::FindBlobs(
    grpc::CallbackServerContext* context, const v1::FindBlobsRequest* request,
    v1::FindBlobsResponse* response) {
  return Answer(context, reads_, "ArtifactService.FindBlobs", [=, this] {
    return rpc::FindBlobs(blobs_, *request, *response);
  });
}

grpc::ServerReadReactor<v1::UploadRequest>* ArtifactService::Upload(
    grpc::CallbackServerContext* context, v1::UploadResponse* response) {
  return SinkStream<v1::UploadRequest>::Start(
      *context, uploads_, "ArtifactService.Upload",
      MakeUploadSink(blobs_, *response));
}

grpc::ServerReadReactor<v1::UploadBatchRequest>* ArtifactService::UploadBatch(
    grpc::CallbackServerContext* context, v1::UploadBatchResponse* response) {
  return SinkStream<v1::UploadBatchRequest>::Start(
      *context, uploads_, "ArtifactService.UploadBatch",
      MakeBatchSink(blobs_, *response));
}

grpc::ServerWriteReactor<v1::DownloadResponse>* ArtifactService::Download(
    grpc::CallbackServerContext* context, const v1::DownloadRequest* request) {
  return SourceStream<v1::DownloadResponse>::Start(
      *context, downloads_, "ArtifactService.Download",
      [&](const Wake&) { return MakeDownloadSource(reader_, *request); });
}

}  // namespace mpsd::rpc
