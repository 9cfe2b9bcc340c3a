// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_UPLOAD_REACTOR_H_
#define MPSD_SERVER_RPC_UPLOAD_REACTOR_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "mpsd/v1/artifacts.pb.h"
#include "server/jobs/blob_store.h"
#include "server/rpc/executor.h"

namespace mpsd::rpc {

// ArtifactService.Upload: one message is read, written to the blob's file on
// the executor, then the next. A blob already there is answered at once, the
// rest of the stream unread. Deletes itself when the call is done.
class UploadReactor final : public grpc::ServerReadReactor<v1::UploadRequest> {
 public:
  // The borrowed objects must outlive the call.
  static UploadReactor* Start(grpc::CallbackServerContext& context,
                              jobs::BlobUploads& blobs, Executor& executor,
                              v1::UploadResponse& response);

 private:
  UploadReactor(grpc::CallbackServerContext& context, jobs::BlobUploads& blobs,
                Executor& executor, v1::UploadResponse& response)
      : context_(context),
        blobs_(blobs),
        executor_(executor),
        response_(response) {}

  void OnReadDone(bool ok) override;
  void OnDone() override { delete this; }

  // Each ends the call or asks for the next message. They run one after the
  // other, on any thread of the executor.
  void Take();
  void TakeEnd();
  absl::Status TakePart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeHeader(const v1::UploadRequest::Header& header)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeData(const std::string& data)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Commit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::CallbackServerContext& context_;
  jobs::BlobUploads& blobs_;
  Executor& executor_;
  v1::UploadResponse& response_;
  v1::UploadRequest request_;

  absl::Mutex mutex_;
  bool existed_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<jobs::BlobWriter> writer_
      ABSL_GUARDED_BY(mutex_);  // from the header on
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_UPLOAD_REACTOR_H_
