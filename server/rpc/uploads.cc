// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/uploads.h"

#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"

namespace mpsd::rpc {

absl::Status FindBlobs(SeenBlobs& blobs, const std::string& user,
                       const v1::FindBlobsRequest& request,
                       v1::FindBlobsResponse& response) {
  RETURN_IF_ERROR(
      CheckCount("sha256", request.sha256().size(), limits::kBlobNames));
  for (int i = 0; i < request.sha256().size(); ++i) {
    RETURN_IF_ERROR(
        CheckSha256(absl::StrCat("sha256[", i, "]"), request.sha256(i)));
  }
  for (const std::string& sha256 : request.sha256()) {
    if (blobs.Has(sha256)) {
      response.add_present(sha256);
    } else if (const int64_t kept = blobs.store().KeptBytes(user, sha256)) {
      v1::FindBlobsResponse::Partial& partial = *response.add_partial();
      partial.set_sha256(sha256);
      partial.set_size_bytes(kept);
    }
  }
  return absl::OkStatus();
}

namespace {

absl::Status CheckData(const std::string& field, const std::string& data) {
  if (data.size() <= static_cast<size_t>(limits::kChunkBytes)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": has ", data.size(), " bytes, at most ",
                   limits::kChunkBytes, " are allowed in one message"));
}

class UploadSink : public Sink<v1::UploadRequest> {
 public:
  UploadSink(SeenBlobs blobs, std::string user, v1::UploadResponse& response,
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

  absl::StatusOr<Push> Resume() override {
    ASSIGN_OR_RETURN(const bool more, writer_->CatchUp());
    return more ? Push::kBusy : Push::kMore;
  }

  absl::Status End() override {
    if (writer_ == nullptr) {
      return absl::InvalidArgumentError("header: is missing");
    }
    RETURN_IF_ERROR(writer_->Commit());
    return claim_->Commit();
  }

 private:
  absl::StatusOr<Push> TakeHeader(const v1::UploadRequest::Header& header) {
    if (writer_ != nullptr) {
      return absl::InvalidArgumentError("header: may come only once");
    }
    RETURN_IF_ERROR(CheckSha256("header.sha256", header.sha256()));
    RETURN_IF_ERROR(CheckNotNegative("header.size_bytes", header.size_bytes()));
    RETURN_IF_ERROR(
        CheckNotNegative("header.offset_bytes", header.offset_bytes()));
    if (header.offset_bytes() > header.size_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("header.offset_bytes: is ", header.offset_bytes(),
                       ", beyond the blob's ", header.size_bytes()));
    }
    response_.set_sha256(header.sha256());
    if (blobs_.Has(header.sha256())) {
      response_.set_existed(true);
      return Push::kEnd;
    }
    // The writer comes first: what it resumes already counts for the user, and
    // what it restarts no longer does.
    ASSIGN_OR_RETURN(
        std::unique_ptr<store::BlobWriter> writer,
        blobs_.store().Resume(user_, header.sha256(), header.size_bytes(),
                              header.offset_bytes()));
    RETURN_IF_ERROR(claim_->Add(header.sha256(),
                                header.size_bytes() - header.offset_bytes()));
    writer_ = std::move(writer);
    return header.offset_bytes() > 0 ? Push::kBusy : Push::kMore;
  }

  absl::StatusOr<Push> TakeData(const std::string& data) {
    if (writer_ == nullptr) {
      return absl::InvalidArgumentError("data: came before the header");
    }
    RETURN_IF_ERROR(CheckData("data", data));
    RETURN_IF_ERROR(writer_->Append(data));
    return Push::kMore;
  }

  SeenBlobs blobs_;
  const std::string user_;
  v1::UploadResponse& response_;
  const std::unique_ptr<jobs::UploadClaim> claim_;
  std::unique_ptr<store::BlobWriter> writer_;  // from the header on
};

class BatchSink : public Sink<v1::UploadBatchRequest> {
 public:
  BatchSink(SeenBlobs blobs, v1::UploadBatchResponse& response,
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
    if (batch_ != nullptr) {
      RETURN_IF_ERROR(batch_->Commit());
    }
    RETURN_IF_ERROR(claim_->Commit());
    response_.set_stored(stored_);
    return absl::OkStatus();
  }

 private:
  absl::Status TakeBlob(const std::string& field,
                        const v1::UploadBatchRequest::Blob& blob) {
    RETURN_IF_ERROR(CheckSha256(field + ".sha256", blob.sha256()));
    RETURN_IF_ERROR(CheckData(field + ".data", blob.data()));
    if (++taken_ > limits::kBatchBlobs) {
      return absl::InvalidArgumentError(
          absl::StrCat("blobs: at most ", limits::kBatchBlobs,
                       " are allowed in one stream"));
    }
    if (blobs_.Has(blob.sha256())) return absl::OkStatus();
    // The same blob may come twice before it is stored, and counts once.
    if (claimed_.insert(blob.sha256()).second) {
      RETURN_IF_ERROR(
          claim_->Add(blob.sha256(), static_cast<int64_t>(blob.data().size())));
    }
    if (batch_ == nullptr) batch_ = blobs_.store().BeginBatch();
    ++stored_;
    return batch_->Add(blob.sha256(), blob.data());
  }

  SeenBlobs blobs_;
  v1::UploadBatchResponse& response_;
  const std::unique_ptr<jobs::UploadClaim> claim_;
  std::set<std::string> claimed_;
  std::unique_ptr<store::BlobBatch> batch_;  // from the first new blob on
  int taken_ = 0, stored_ = 0;
};

}  // namespace

std::unique_ptr<Sink<v1::UploadRequest>> MakeUploadSink(
    SeenBlobs blobs, std::string user, v1::UploadResponse& response,
    std::unique_ptr<jobs::UploadClaim> claim) {
  return std::make_unique<UploadSink>(std::move(blobs), std::move(user),
                                      response, std::move(claim));
}

std::unique_ptr<Sink<v1::UploadBatchRequest>> MakeBatchSink(
    SeenBlobs blobs, v1::UploadBatchResponse& response,
    std::unique_ptr<jobs::UploadClaim> claim) {
  return std::make_unique<BatchSink>(std::move(blobs), response,
                                     std::move(claim));
}

}  // namespace mpsd::rpc
