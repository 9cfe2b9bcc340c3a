// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/artifact_service.h"

#include "server/rpc/download_reactor.h"
#include "server/rpc/find_blobs.h"
#include "server/rpc/source_stream.h"
#include "server/rpc/status.h"
#include "server/rpc/upload_reactor.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* ArtifactService::FindBlobs(
    grpc::CallbackServerContext* context, const v1::FindBlobsRequest* request,
    v1::FindBlobsResponse* response) {
  return Answer(context, rpc::FindBlobs(blobs_, *request, *response));
}

grpc::ServerReadReactor<v1::UploadRequest>* ArtifactService::Upload(
    grpc::CallbackServerContext* context, v1::UploadResponse* response) {
  return UploadReactor::Start(*context, blobs_, files_.executor(), *response);
}

grpc::ServerWriteReactor<v1::DownloadResponse>* ArtifactService::Download(
    grpc::CallbackServerContext*, const v1::DownloadRequest* request) {
  return SourceStream<v1::DownloadResponse>::Start(
      files_, [&](Wake) { return MakeDownloadSource(manager_, *request); });
}

}  // namespace mpsd::rpc
