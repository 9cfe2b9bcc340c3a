// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_UPLOAD_REACTOR_H_
#define MPSD_SERVER_RPC_UPLOAD_REACTOR_H_

#include <memory>

#include "mpsd/v1/artifacts.pb.h"
#include "server/jobs/blob_store.h"
#include "server/rpc/sink_stream.h"

namespace mpsd::rpc {

// ArtifactService.Upload: each message is written to the blob's file. A blob
// already there is answered at once, the rest of the stream unread. What is
// borrowed must outlive it.
std::unique_ptr<Sink<v1::UploadRequest>> MakeUploadSink(
    jobs::BlobUploads& blobs, v1::UploadResponse& response);

// ArtifactService.UploadBatch: the blobs of each message are written, all of
// them flushed together at the end of the stream.
std::unique_ptr<Sink<v1::UploadBatchRequest>> MakeBatchSink(
    jobs::BlobUploads& blobs, v1::UploadBatchResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_UPLOAD_REACTOR_H_
