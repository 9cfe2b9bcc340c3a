// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_UPLOAD_REACTOR_H_
#define MPSD_SERVER_RPC_UPLOAD_REACTOR_H_

#include <memory>
#include <string>

#include "mpsd/v1/artifacts.pb.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/user_limits.h"
#include "server/rpc/sink_stream.h"

namespace mpsd::rpc {

// Implements ArtifactService.Upload: writes each message to the blob's file.
// The store keeps the received part of an interrupted stream, for `user`.
// For a blob that the store already has, it answers at once and leaves the rest
// of the stream unread. `claim` counts the blob for the user who sends it;
// null: not counted. The dependencies must outlive the sink.
std::unique_ptr<Sink<v1::UploadRequest>> MakeUploadSink(
    std::unique_ptr<jobs::BlobUploads> blobs, std::string user,
    v1::UploadResponse& response,
    std::unique_ptr<jobs::UploadClaim> claim = nullptr);

// Implements ArtifactService.UploadBatch: writes the blobs of each message, and
// flushes all of them together at the end of the stream.
std::unique_ptr<Sink<v1::UploadBatchRequest>> MakeBatchSink(
    std::unique_ptr<jobs::BlobUploads> blobs, v1::UploadBatchResponse& response,
    std::unique_ptr<jobs::UploadClaim> claim = nullptr);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_UPLOAD_REACTOR_H_
