// SPDX-License-Identifier: Apache-2.0
#include "client/upload.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/progress_line.h"
#include "client/text/format.h"
#include "core/base/check.h"
#include "core/base/file.h"

namespace mpsd::client {
namespace {

constexpr int kMaxHashes = 1000;      // hashes in one FindBlobs call
constexpr size_t kChunk = 256 << 10;  // bytes
// Bounds of UploadBatch: bytes of a file, of a message and of a stream. A
// stream that breaks off has to send everything again, so a stream is not long.
constexpr int64_t kMaxSmall = 1 << 20;  // bytes
constexpr int kBlobsOfMessage = 1000;
constexpr size_t kParcelFiles = 4000;
constexpr int64_t kParcelBytes = 32 << 20;
constexpr size_t kStreams = 4;  // uploads at a time
// The number of tries while too many other clients upload.
constexpr int kTries = 6;
constexpr absl::Duration kFirstWait = absl::Milliseconds(250);

// Whether the daemon answered that it has too much to do. gRPC's own
// UNAVAILABLE, for a daemon that cannot be reached, has another text.
bool IsBusy(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message().find("try again") != std::string::npos;
}

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

// Draws the progress bar; called by each thread that has sent something.
class Progress {
 public:
  Progress(const Console& console, int64_t total)
      : line_(console), total_(total) {}

  void Sent(size_t bytes, const std::string& path) {
    absl::MutexLock lock(&mutex_);
    sent_ += static_cast<int64_t>(bytes);
    line_.Draw(sent_, total_,
               absl::StrCat("uploading ", Printable(path), "  ", Bytes(sent_),
                            "/", Bytes(total_)));
  }

 private:
  absl::Mutex mutex_;
  ProgressLine line_ ABSL_GUARDED_BY(mutex_);
  const int64_t total_;
  int64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
};

grpc::Status Invalid(const std::string& message) {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, message);
}

// Several small files, sent together, or one file of any size.
using Parcel = std::vector<const LocalFile*>;

std::vector<Parcel> Parcels(const ByHash& files) {
  std::vector<Parcel> parcels;
  Parcel small;
  int64_t bytes = 0;
  for (const auto& [hash, file] : files) {
    if (file.size_bytes > kMaxSmall) {
      parcels.push_back({&file});
      continue;
    }
    if (small.size() == kParcelFiles ||
        bytes + file.size_bytes > kParcelBytes) {
      parcels.push_back(std::move(small));
      small.clear();
      bytes = 0;
    }
    small.push_back(&file);
    bytes += file.size_bytes;
  }
  if (!small.empty()) parcels.push_back(std::move(small));
  return parcels;
}

// Sends parcels over a few streams at a time: one stream fills the line while
// others wait for the daemon's drive.
class Uploader {
 public:
  Uploader(v1::ArtifactService::Stub& artifacts, Progress& progress,
           std::vector<Parcel> parcels)
      : artifacts_(artifacts),
        progress_(progress),
        parcels_(std::move(parcels)) {}

  grpc::Status Run() {
    std::vector<std::thread> threads;
    const size_t streams = std::min(parcels_.size(), kStreams);
    threads.reserve(streams);
    for (size_t i = 0; i < streams; ++i) {
      threads.emplace_back([this] { SendParcels(); });
    }
    for (std::thread& thread : threads) thread.join();
    absl::MutexLock lock(&mutex_);
    return failed_;
  }

 private:
  void SendParcels() {
    while (const Parcel* parcel = Next()) {
      const grpc::Status sent = Send(*parcel);
      if (sent.ok()) continue;
      absl::MutexLock lock(&mutex_);
      if (failed_.ok()) failed_ = sent;
    }
  }

  // The next parcel; null when all are sent, or when one could not be sent.
  const Parcel* Next() {
    absl::MutexLock lock(&mutex_);
    if (!failed_.ok() || next_ == parcels_.size()) return nullptr;
    return &parcels_[next_++];
  }

  grpc::Status Send(const Parcel& parcel) {
    base::Check(!parcel.empty(), "a parcel has a file");
    if (parcel.front()->size_bytes <= kMaxSmall && batches_) {
      const grpc::Status sent = SendBatch(parcel);
      if (sent.error_code() != grpc::StatusCode::UNIMPLEMENTED) return sent;
      batches_ = false;  // an older daemon
    }
    for (const LocalFile* file : parcel) {
      const grpc::Status sent = SendAlone(*file);
      if (!sent.ok()) return sent;
    }
    return grpc::Status::OK;
  }

  grpc::Status SendBatch(const Parcel& parcel) {
    grpc::ClientContext context;
    v1::UploadBatchResponse response;
    auto writer = artifacts_.UploadBatch(&context, &response);
    v1::UploadBatchRequest request;
    int64_t bytes = 0;
    bool going = true;
    grpc::Status read;
    for (size_t i = 0; going && i < parcel.size(); ++i) {
      read = AddTo(request, *parcel[i]);
      if (!read.ok()) break;
      bytes += parcel[i]->size_bytes;
      if (bytes < kMaxSmall && request.blobs().size() < kBlobsOfMessage &&
          i + 1 < parcel.size()) {
        continue;
      }
      going = writer->Write(request);
      progress_.Sent(bytes, parcel[i]->path);
      request.Clear();
      bytes = 0;
    }
    if (!read.ok()) context.TryCancel();
    writer->WritesDone();
    const grpc::Status ended = writer->Finish();
    return read.ok() ? ended : read;
  }

  static grpc::Status AddTo(v1::UploadBatchRequest& request,
                            const LocalFile& file) {
    auto mapped = base::MappedFile::Open(file.local);
    if (!mapped.ok()) return Invalid(std::string(mapped.status().message()));
    const std::string_view bytes = (*mapped)->bytes();
    if (bytes.size() != static_cast<size_t>(file.size_bytes)) {
      return Invalid(
          absl::StrCat(file.local.string(), " changed while it was sent"));
    }
    v1::UploadBatchRequest::Blob& blob = *request.add_blobs();
    blob.set_sha256(file.sha256);
    blob.set_data(bytes.data(), bytes.size());
    return grpc::Status::OK;
  }

  grpc::Status SendAlone(const LocalFile& file) {
    auto mapped = base::MappedFile::Open(file.local);
    if (!mapped.ok()) return Invalid(std::string(mapped.status().message()));
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto writer = artifacts_.Upload(&context, &response);
    v1::UploadRequest request;
    request.mutable_header()->set_sha256(file.sha256);
    request.mutable_header()->set_size_bytes(file.size_bytes);
    bool going = writer->Write(request);
    const std::string_view bytes = (*mapped)->bytes();
    for (size_t at = 0; going && at < bytes.size(); at += kChunk) {
      const std::string_view piece = bytes.substr(at, kChunk);
      request.set_data(piece.data(), piece.size());
      going = writer->Write(request);
      progress_.Sent(piece.size(), file.path);
    }
    writer->WritesDone();
    return writer->Finish();
  }

  v1::ArtifactService::Stub& artifacts_;
  Progress& progress_;
  const std::vector<Parcel> parcels_;
  std::atomic<bool> batches_ = true;  // the daemon has UploadBatch

  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status failed_ ABSL_GUARDED_BY(mutex_);
};

grpc::Status UploadMissing(const Console& console, ByHash missing) {
  v1::ArtifactService::Stub& artifacts = console.daemon.artifacts();
  grpc::Status status = DropPresent(artifacts, missing);
  if (!status.ok() || missing.empty()) return status;
  int64_t total = 0;
  for (const auto& [hash, file] : missing) total += file.size_bytes;
  Progress progress(console, total);
  return Uploader(artifacts, progress, Parcels(missing)).Run();
}

}  // namespace

grpc::Status Upload(const Console& console,
                    const std::vector<LocalFile>& files) {
  ByHash missing;
  for (const LocalFile& file : files) missing.emplace(file.sha256, file);
  if (missing.empty()) return grpc::Status::OK;
  grpc::Status status = UploadMissing(console, missing);
  absl::Duration wait = kFirstWait;
  for (int i = 0; i < kTries && IsBusy(status); ++i) {
    console.terminal.sleep(wait);
    wait *= 2;
    status = UploadMissing(console, missing);
  }
  return status;
}

}  // namespace mpsd::client
