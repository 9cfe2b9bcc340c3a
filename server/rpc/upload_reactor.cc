// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/upload_reactor.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/check.h"

namespace mpsd::rpc {
namespace {

absl::Status CheckData(const std::string& field, const std::string& data) {
  if (data.size() <= static_cast<size_t>(kMaxChunkBytes)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": has ", data.size(), " bytes, at most ",
                   kMaxChunkBytes, " are allowed in one message"));
}

class UploadSink : public Sink<v1::UploadRequest> {
 public:
  UploadSink(jobs::BlobUploads& blobs, v1::UploadResponse& response)
      : blobs_(blobs), response_(response) {}

  absl::StatusOr<Push> Take(const v1::UploadRequest& request) override {
    switch (request.part_case()) {
      case v1::UploadRequest::kHeader:
        return TakeHeader(request.header());
      case v1::UploadRequest::kData:
        return TakeData(request.data());
      default:
        return absl::InvalidArgumentError("part: neither header nor data");
    }
  }

  absl::Status End() override {
    if (writer_ != nullptr) return writer_->Commit();
    return absl::InvalidArgumentError("header: is missing");
  }

 private:
  absl::StatusOr<Push> TakeHeader(const v1::UploadRequest::Header& header) {
    if (writer_ != nullptr) {
      return absl::InvalidArgumentError("header: may come only once");
    }
    absl::Status checked = CheckSha256("header.sha256", header.sha256());
    if (checked.ok()) {
      checked = CheckNotNegative("header.size_bytes", header.size_bytes());
    }
    if (!checked.ok()) return checked;
    response_.set_sha256(header.sha256());
    if (blobs_.Has(header.sha256())) {
      response_.set_existed(true);
      return Push::kEnd;
    }
    absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> writer =
        blobs_.Begin(header.sha256(), header.size_bytes());
    if (!writer.ok()) return writer.status();
    writer_ = *std::move(writer);
    return Push::kMore;
  }

  absl::StatusOr<Push> TakeData(const std::string& data) {
    if (writer_ == nullptr) {
      return absl::InvalidArgumentError("data: came before the header");
    }
    absl::Status taken = CheckData("data", data);
    if (taken.ok()) taken = writer_->Append(data);
    if (!taken.ok()) return taken;
    return Push::kMore;
  }

  jobs::BlobUploads& blobs_;
  v1::UploadResponse& response_;
  std::unique_ptr<jobs::BlobWriter> writer_;  // from the header on
};

class BatchSink : public Sink<v1::UploadBatchRequest> {
 public:
  BatchSink(jobs::BlobUploads& blobs, v1::UploadBatchResponse& response)
      : blobs_(blobs), response_(response) {}

  absl::StatusOr<Push> Take(const v1::UploadBatchRequest& request) override {
    for (int i = 0; i < request.blobs().size(); ++i) {
      const std::string field = absl::StrCat("blobs[", i, "]");
      absl::Status taken = TakeBlob(field, request.blobs(i));
      if (!taken.ok()) return taken;
    }
    return Push::kMore;
  }

  absl::Status End() override {
    absl::Status ended =
        batch_ == nullptr ? absl::OkStatus() : batch_->Commit();
    if (ended.ok()) response_.set_stored(stored_);
    return ended;
  }

 private:
  absl::Status TakeBlob(const std::string& field,
                        const v1::UploadBatchRequest::Blob& blob) {
    absl::Status status = CheckSha256(field + ".sha256", blob.sha256());
    if (status.ok()) status = CheckData(field + ".data", blob.data());
    if (status.ok() && ++taken_ > kMaxBatchBlobs) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "blobs: at most ", kMaxBatchBlobs, " are allowed in one stream"));
    }
    if (!status.ok() || blobs_.Has(blob.sha256())) return status;
    if (batch_ == nullptr) batch_ = blobs_.BeginBatch();
    ++stored_;
    return batch_->Add(blob.sha256(), blob.data());
  }

  jobs::BlobUploads& blobs_;
  v1::UploadBatchResponse& response_;
  std::unique_ptr<jobs::BlobBatch> batch_;  // from the first new blob on
  int taken_ = 0, stored_ = 0;
};

}  // namespace

std::unique_ptr<Sink<v1::UploadRequest>> MakeUploadSink(
    jobs::BlobUploads& blobs, v1::UploadResponse& response) {
  return std::make_unique<UploadSink>(blobs, response);
}

std::unique_ptr<Sink<v1::UploadBatchRequest>> MakeBatchSink(
    jobs::BlobUploads& blobs, v1::UploadBatchResponse& response) {
  return std::make_unique<BatchSink>(blobs, response);
}

}  // namespace mpsd::rpc
