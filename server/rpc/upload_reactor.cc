// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/upload_reactor.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/check.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {

UploadReactor* UploadReactor::Start(grpc::CallbackServerContext& context,
                                    jobs::BlobUploads& blobs,
                                    Executor& executor,
                                    v1::UploadResponse& response) {
  auto* reactor = new UploadReactor(context, blobs, executor, response);
  reactor->StartRead(&reactor->request_);
  return reactor;
}

// After Finish the reactor may be gone: nothing follows it.
void UploadReactor::OnReadDone(bool ok) {
  executor_.Post([this, ok] { ok ? Take() : TakeEnd(); });
}

void UploadReactor::Take() {
  absl::Status taken;
  bool more = false;
  {
    absl::MutexLock lock(&mutex_);
    taken = TakePart();
    more = taken.ok() && !existed_;
    if (!more) writer_.reset();
  }
  if (more) {
    StartRead(&request_);
  } else {
    Finish(ToGrpc(taken));
  }
}

absl::Status UploadReactor::TakePart() {
  switch (request_.part_case()) {
    case v1::UploadRequest::kHeader:
      return TakeHeader(request_.header());
    case v1::UploadRequest::kData:
      return TakeData(request_.data());
    default:
      return absl::InvalidArgumentError("part: neither header nor data");
  }
}

absl::Status UploadReactor::TakeHeader(
    const v1::UploadRequest::Header& header) {
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
    existed_ = true;
    response_.set_existed(true);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<jobs::BlobWriter>> writer =
      blobs_.Begin(header.sha256(), header.size_bytes());
  if (!writer.ok()) return writer.status();
  writer_ = *std::move(writer);
  return absl::OkStatus();
}

absl::Status UploadReactor::TakeData(const std::string& data) {
  if (writer_ == nullptr) {
    return absl::InvalidArgumentError("data: came before the header");
  }
  if (data.size() > static_cast<size_t>(kMaxChunkBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: has ", data.size(), " bytes, at most ",
                     kMaxChunkBytes, " are allowed in one message"));
  }
  return writer_->Append(data);
}

void UploadReactor::TakeEnd() {
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    ended = context_.IsCancelled()
                ? absl::CancelledError("the upload broke off")
                : Commit();
    writer_.reset();
  }
  Finish(ToGrpc(ended));
}

absl::Status UploadReactor::Commit() {
  if (writer_ != nullptr) return writer_->Commit();
  return absl::InvalidArgumentError("header: is missing");
}

}  // namespace mpsd::rpc
