// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/upload_reactor.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
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
  UploadSink(std::unique_ptr<jobs::BlobUploads> blobs, std::string user,
             v1::UploadResponse& response,
             std::unique_ptr<jobs::UploadClaim> claim)
      : blobs_(std::move(blobs)),
        user_(std::move(user)),
        response_(response),
        claim_(std::move(claim)) {}

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

  absl::StatusOr<Push> GoOn() override {
    ASSIGN_OR_RETURN(const bool more, writer_->CatchUp());
    return more ? Push::kBusy : Push::kMore;
  }

  absl::Status End() override {
    if (writer_ == nullptr) {
      return absl::InvalidArgumentError("header: is missing");
    }
    absl::Status stored = writer_->Commit();
    return stored.ok() && claim_ != nullptr ? claim_->Commit() : stored;
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
    if (checked.ok()) {
      checked = CheckNotNegative("header.offset_bytes", header.offset_bytes());
    }
    if (checked.ok() && header.offset_bytes() > header.size_bytes()) {
      checked = absl::InvalidArgumentError(
          absl::StrCat("header.offset_bytes: is ", header.offset_bytes(),
                       ", beyond the blob's ", header.size_bytes()));
    }
    if (!checked.ok()) return checked;
    response_.set_sha256(header.sha256());
    if (blobs_->Has(header.sha256())) {
      response_.set_existed(true);
      return Push::kEnd;
    }
    // The writer comes first: what it resumes already counts for the user, and
    // what it restarts no longer does.
    ASSIGN_OR_RETURN(std::unique_ptr<jobs::BlobWriter> writer,
                     blobs_->Resume(user_, header.sha256(), header.size_bytes(),
                                    header.offset_bytes()));
    if (claim_ != nullptr) {
      RETURN_IF_ERROR(claim_->Add(header.sha256(),
                                  header.size_bytes() - header.offset_bytes()));
    }
    writer_ = std::move(writer);
    return header.offset_bytes() > 0 ? Push::kBusy : Push::kMore;
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

  const std::unique_ptr<jobs::BlobUploads> blobs_;
  const std::string user_;
  v1::UploadResponse& response_;
  const std::unique_ptr<jobs::UploadClaim> claim_;  // null: not counted
  std::unique_ptr<jobs::BlobWriter> writer_;        // from the header on
};

class BatchSink : public Sink<v1::UploadBatchRequest> {
 public:
  BatchSink(std::unique_ptr<jobs::BlobUploads> blobs,
            v1::UploadBatchResponse& response,
            std::unique_ptr<jobs::UploadClaim> claim)
      : blobs_(std::move(blobs)),
        response_(response),
        claim_(std::move(claim)) {}

  absl::StatusOr<Push> Take(const v1::UploadBatchRequest& request) override {
    for (int i = 0; i < request.blobs().size(); ++i) {
      const std::string field = absl::StrCat("blobs[", i, "]");
      RETURN_IF_ERROR(TakeBlob(field, request.blobs(i)));
    }
    return Push::kMore;
  }

  absl::Status End() override {
    absl::Status ended =
        batch_ == nullptr ? absl::OkStatus() : batch_->Commit();
    if (ended.ok() && claim_ != nullptr) ended = claim_->Commit();
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
    if (!status.ok() || blobs_->Has(blob.sha256())) return status;
    // The same blob may come twice before it is stored, and counts once.
    if (claim_ != nullptr && claimed_.insert(blob.sha256()).second) {
      status =
          claim_->Add(blob.sha256(), static_cast<int64_t>(blob.data().size()));
      if (!status.ok()) return status;
    }
    if (batch_ == nullptr) batch_ = blobs_->BeginBatch();
    ++stored_;
    return batch_->Add(blob.sha256(), blob.data());
  }

  const std::unique_ptr<jobs::BlobUploads> blobs_;
  v1::UploadBatchResponse& response_;
  const std::unique_ptr<jobs::UploadClaim> claim_;  // null: not counted
  std::set<std::string> claimed_;
  std::unique_ptr<jobs::BlobBatch> batch_;  // from the first new blob on
  int taken_ = 0, stored_ = 0;
};

}  // namespace

std::unique_ptr<Sink<v1::UploadRequest>> MakeUploadSink(
    std::unique_ptr<jobs::BlobUploads> blobs, std::string user,
    v1::UploadResponse& response, std::unique_ptr<jobs::UploadClaim> claim) {
  return std::make_unique<UploadSink>(std::move(blobs), std::move(user),
                                      response, std::move(claim));
}

std::unique_ptr<Sink<v1::UploadBatchRequest>> MakeBatchSink(
    std::unique_ptr<jobs::BlobUploads> blobs, v1::UploadBatchResponse& response,
    std::unique_ptr<jobs::UploadClaim> claim) {
  return std::make_unique<BatchSink>(std::move(blobs), response,
                                     std::move(claim));
}

}  // namespace mpsd::rpc
