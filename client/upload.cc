// SPDX-License-Identifier: Apache-2.0
#include "client/upload.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/format.h"
#include "client/progress_line.h"
#include "core/base/file.h"

namespace mpsd::client {
namespace {

constexpr int kMaxHashes = 1000;      // of a FindBlobs call
constexpr size_t kChunk = 256 << 10;  // bytes

using ByHash = std::map<std::string, LocalFile>;

// Removes from `files` what the daemon holds.
grpc::Status DropPresent(v1::ArtifactService::Stub& artifacts, ByHash& files) {
  std::vector<std::string> hashes;
  for (const auto& [hash, file] : files) hashes.push_back(hash);
  for (size_t begin = 0; begin < hashes.size(); begin += kMaxHashes) {
    v1::FindBlobsRequest request;
    const size_t end = std::min(begin + kMaxHashes, hashes.size());
    for (size_t i = begin; i < end; ++i) request.add_sha256(hashes[i]);
    grpc::ClientContext context;
    SetDeadline(context);
    v1::FindBlobsResponse response;
    grpc::Status status = artifacts.FindBlobs(&context, request, &response);
    if (!status.ok()) return status;
    for (const std::string& hash : response.present()) files.erase(hash);
  }
  return grpc::Status::OK;
}

class Progress {
 public:
  Progress(const Console& console, int64_t total)
      : line_(console), total_(total) {}

  void Sent(size_t bytes, const std::string& path) {
    sent_ += static_cast<int64_t>(bytes);
    line_.Draw(sent_, total_,
               absl::StrCat("uploading ", Printable(path), "  ", Bytes(sent_),
                            "/", Bytes(total_)));
  }

 private:
  ProgressLine line_;
  const int64_t total_;
  int64_t sent_ = 0;
};

grpc::Status Send(v1::ArtifactService::Stub& artifacts, const LocalFile& file,
                  Progress& progress) {
  auto mapped = base::MappedFile::Open(file.local);
  if (!mapped.ok()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                        std::string(mapped.status().message()));
  }
  grpc::ClientContext context;
  v1::UploadResponse response;
  auto writer = artifacts.Upload(&context, &response);
  v1::UploadRequest request;
  request.mutable_header()->set_sha256(file.sha256);
  request.mutable_header()->set_size_bytes(file.size_bytes);
  bool going = writer->Write(request);
  const std::string_view bytes = (*mapped)->bytes();
  for (size_t at = 0; going && at < bytes.size(); at += kChunk) {
    const std::string_view piece = bytes.substr(at, kChunk);
    request.set_data(piece.data(), piece.size());
    going = writer->Write(request);
    progress.Sent(piece.size(), file.path);
  }
  writer->WritesDone();
  return writer->Finish();
}

}  // namespace

grpc::Status Upload(const Console& console,
                    const std::vector<LocalFile>& files) {
  ByHash missing;
  for (const LocalFile& file : files) missing.emplace(file.sha256, file);
  if (missing.empty()) return grpc::Status::OK;
  v1::ArtifactService::Stub& artifacts = console.daemon.artifacts();
  grpc::Status status = DropPresent(artifacts, missing);
  if (!status.ok()) return status;
  int64_t total = 0;
  for (const auto& [hash, file] : missing) total += file.size_bytes;
  Progress progress(console, total);
  for (const auto& [hash, file] : missing) {
    status = Send(artifacts, file, progress);
    if (!status.ok()) return status;
  }
  return grpc::Status::OK;
}

}  // namespace mpsd::client
