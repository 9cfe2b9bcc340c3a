// SPDX-License-Identifier: Apache-2.0
#include "client/upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/console.h"
#include "client/event_printer.h"
#include "client/text/format.h"
#include "core/base/check.h"
#include "core/base/file.h"

namespace mpsd::client {
namespace {

constexpr size_t kMaxHashes = 1000;    // hashes in one FindBlobs call
constexpr int64_t kChunk = 512 << 10;  // bytes
// Bounds of UploadBatch: bytes of a file, of a message and of a stream. A
// broken stream must be sent again from its start, so a stream is not long.
constexpr int64_t kMaxSmall = 1 << 20;  // bytes
constexpr int kBlobsOfMessage = 1000;
constexpr size_t kParcelFiles = 4000;
constexpr int64_t kParcelBytes = 32 << 20;
constexpr size_t kStreams = 4;  // uploads at a time
// The number of attempts while too many other clients upload, and of rounds
// without progress.
constexpr int kTries = 6;
constexpr absl::Duration kFirstWait = absl::Milliseconds(250);
// How long to try again once the connection broke.
constexpr absl::Duration kPatience = absl::Minutes(10);

// Whether the daemon answered that it is overloaded. gRPC's own UNAVAILABLE,
// for an unreachable daemon, has another text.
bool IsBusy(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message().find("try again") != std::string::npos;
}

grpc::Status Invalid(const std::string& message) {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, message);
}

grpc::Status Changed(const LocalFile& file) {
  return Invalid(
      absl::StrCat(file.local.string(), " changed while it was sent"));
}

// A file to send, from `offset` on.
struct Missing {
  const LocalFile* file;
  int64_t offset = 0;
};

// Several small files, sent together, or one file of any size.
using Parcel = std::vector<Missing>;

// The files among `files` that the daemon does not have, each content once.
class Question {
 public:
  explicit Question(const std::vector<LocalFile>& files) {
    std::unordered_set<std::string_view> known;
    for (const LocalFile& file : files) {
      if (known.insert(file.sha256).second) files_.push_back({&file});
    }
  }

  grpc::Status Ask(v1::ArtifactService::Stub& artifacts,
                   std::vector<Missing>& missing) const {
    missing.clear();
    for (size_t begin = 0; begin < files_.size(); begin += kMaxHashes) {
      v1::FindBlobsRequest request;
      const size_t end = std::min(begin + kMaxHashes, files_.size());
      for (size_t i = begin; i < end; ++i) {
        request.add_sha256(files_[i].file->sha256);
      }
      grpc::ClientContext context;
      SetDeadline(context);
      v1::FindBlobsResponse response;
      grpc::Status status = artifacts.FindBlobs(&context, request, &response);
      if (!status.ok()) return status;
      const std::unordered_set<std::string_view> present(
          response.present().begin(), response.present().end());
      std::unordered_map<std::string_view, int64_t> kept;
      for (const auto& partial : response.partial()) {
        kept[partial.sha256()] = partial.size_bytes();
      }
      for (size_t i = begin; i < end; ++i) {
        const LocalFile& file = *files_[i].file;
        if (present.count(file.sha256) != 0) continue;
        const auto part = kept.find(file.sha256);
        const bool goes_on = part != kept.end() && part->second > 0 &&
                             part->second <= file.size_bytes;
        missing.push_back({&file, goes_on ? part->second : 0});
      }
    }
    return grpc::Status::OK;
  }

 private:
  std::vector<Missing> files_;
};

// Draws the progress bar; called by each thread that has sent data.
class Progress {
 public:
  // `sent`: the bytes that the daemon had before.
  Progress(const Console& console, int64_t sent, int64_t total)
      : line_(console), total_(total), sent_(sent) {}

  void Sent(int64_t bytes, const std::string& path) {
    absl::MutexLock lock(&mutex_);
    sent_ += bytes;
    line_.Draw(sent_, total_,
               absl::StrCat("uploading ", Printable(path), "  ", Bytes(sent_),
                            "/", Bytes(total_)));
  }

 private:
  absl::Mutex mutex_;
  ProgressLine line_ ABSL_GUARDED_BY(mutex_);
  const int64_t total_;
  int64_t sent_ ABSL_GUARDED_BY(mutex_);
};

// Uses pread, not a mapping: a file truncated meanwhile would end the process.
class FileToSend {
 public:
  explicit FileToSend(const LocalFile& file)
      : file_(file),
        fd_(open(file.local.c_str(), O_RDONLY | O_CLOEXEC)),
        error_(fd_ < 0 ? errno : 0) {}
  ~FileToSend() {
    if (fd_ >= 0) close(fd_);
  }
  FileToSend(const FileToSend&) = delete;
  FileToSend& operator=(const FileToSend&) = delete;

  // Fills all of `bytes` from offset `at`.
  grpc::Status Read(int64_t at, std::string& bytes) {
    size_t have = 0;
    while (error_ == 0 && have < bytes.size()) {
      const ssize_t n = pread(fd_, bytes.data() + have, bytes.size() - have,
                              at + static_cast<int64_t>(have));
      if (n == 0) return Changed(file_);
      if (n > 0) have += n;
      if (n < 0 && errno != EINTR) error_ = errno;
    }
    if (error_ == 0) return grpc::Status::OK;
    return Invalid(
        std::string(base::ErrnoStatus(error_, file_.local.string()).message()));
  }
  // Whether the file ends at `size`.
  bool EndsAt(int64_t size) {
    char beyond;
    return pread(fd_, &beyond, 1, size) == 0;
  }

 private:
  const LocalFile& file_;
  const int fd_;
  int error_;
};

// The large files come first, the largest at the head: their streams end last.
std::vector<Parcel> Parcels(const std::vector<Missing>& missing) {
  std::vector<Parcel> large, small;
  int64_t bytes = 0;
  for (const Missing& one : missing) {
    const int64_t size = one.file->size_bytes;
    if (size > kMaxSmall) {
      large.push_back({one});
      continue;
    }
    if (small.empty() || small.back().size() == kParcelFiles ||
        bytes + size > kParcelBytes) {
      small.emplace_back();
      bytes = 0;
    }
    small.back().push_back(one);
    bytes += size;
  }
  std::stable_sort(large.begin(), large.end(),
                   [](const Parcel& a, const Parcel& b) {
                     return a[0].file->size_bytes > b[0].file->size_bytes;
                   });
  std::move(small.begin(), small.end(), std::back_inserter(large));
  return large;
}

// Sends parcels over several streams at a time: one stream fills the line while
// others wait for the daemon's disk.
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
    if (parcel.front().file->size_bytes <= kMaxSmall) {
      return SendBatch(parcel);
    }
    for (const Missing& one : parcel) {
      const grpc::Status sent = SendAlone(one);
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
      const LocalFile& file = *parcel[i].file;
      read = AddTo(request, file);
      if (!read.ok()) break;
      bytes += file.size_bytes;
      if (bytes < kMaxSmall && request.blobs().size() < kBlobsOfMessage &&
          i + 1 < parcel.size()) {
        continue;
      }
      going = writer->Write(request);
      progress_.Sent(bytes, file.path);
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
    FileToSend from(file);
    v1::UploadBatchRequest::Blob& blob = *request.add_blobs();
    blob.set_sha256(file.sha256);
    blob.mutable_data()->resize(static_cast<size_t>(file.size_bytes));
    grpc::Status read = from.Read(0, *blob.mutable_data());
    if (!read.ok()) return read;
    return from.EndsAt(file.size_bytes) ? read : Changed(file);
  }

  grpc::Status SendAlone(const Missing& one) {
    const LocalFile& file = *one.file;
    FileToSend from(file);
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto writer = artifacts_.Upload(&context, &response);
    v1::UploadRequest request;
    request.mutable_header()->set_sha256(file.sha256);
    request.mutable_header()->set_size_bytes(file.size_bytes);
    request.mutable_header()->set_offset_bytes(one.offset);
    bool going = writer->Write(request);
    grpc::Status read;
    for (int64_t at = one.offset; going && at < file.size_bytes;) {
      const int64_t size = std::min(kChunk, file.size_bytes - at);
      request.mutable_data()->resize(static_cast<size_t>(size));
      read = from.Read(at, *request.mutable_data());
      if (!read.ok()) break;
      going = writer->Write(request);
      at += size;
      progress_.Sent(size, file.path);
    }
    if (!read.ok()) context.TryCancel();
    writer->WritesDone();
    const grpc::Status ended = writer->Finish();
    return read.ok() ? ended : read;
  }

  v1::ArtifactService::Stub& artifacts_;
  Progress& progress_;
  const std::vector<Parcel> parcels_;

  absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status failed_ ABSL_GUARDED_BY(mutex_);
};

// Queries what is missing and sends it, until nothing is: each round resumes
// where the one before was interrupted.
class Turns {
 public:
  Turns(const Console& console, const std::vector<LocalFile>& files)
      : console_(console), question_(files), reconnect_(console, kPatience) {}

  grpc::Status Run() {
    grpc::Status status = Turn();
    while (!status.ok() && ShallGoOn(status)) status = Turn();
    return status;
  }

 private:
  grpc::Status Turn() {
    v1::ArtifactService::Stub& artifacts = console_.daemon.artifacts();
    std::vector<Missing> missing;
    grpc::Status status = question_.Ask(artifacts, missing);
    if (!status.ok() || missing.empty()) return status;
    int64_t total = 0, kept = 0;
    went_on_ = false;
    for (const Missing& one : missing) {
      total += one.file->size_bytes;
      kept += one.offset;
      went_on_ = went_on_ || one.offset > 0;
    }
    if (left_ < 0 || total - kept < left_) {
      left_ = total - kept;
      fruitless_ = 0;
      reconnect_.Received();
    }
    Progress progress(console_, kept, total);
    return Uploader(artifacts, progress, Parcels(missing)).Run();
  }

  bool ShallGoOn(const grpc::Status& status) {
    if (IsBusy(status)) {
      if (busy_ == kTries) return false;
      console_.terminal.sleep(kFirstWait * (1 << busy_++));
      return true;
    }
    switch (status.error_code()) {
      case grpc::StatusCode::INVALID_ARGUMENT:
        // What the daemon had stored was not the file's beginning; it has
        // dropped it by now.
        return std::exchange(went_on_, false) && ++fruitless_ < kTries;
      case grpc::StatusCode::ABORTED:
      case grpc::StatusCode::OUT_OF_RANGE:
      case grpc::StatusCode::DATA_LOSS:
        return ++fruitless_ < kTries;
      default:
        return reconnect_.ShouldRetry(status);
    }
  }

  const Console& console_;
  const Question question_;
  Reconnect reconnect_;
  int busy_ = 0;          // answers that the daemon is overloaded
  int fruitless_ = 0;     // rounds since the last with progress
  int64_t left_ = -1;     // bytes, the fewest of all rounds
  bool went_on_ = false;  // the last round resumed a file in its middle
};

}  // namespace

grpc::Status Upload(const Console& console,
                    const std::vector<LocalFile>& files) {
  if (files.empty()) return grpc::Status::OK;
  grpc::Status status = Turns(console, files).Run();
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT &&
      status.error_message().find("SHA-256") != std::string::npos) {
    return Invalid(absl::StrCat(status.error_message(),
                                ": a file changed while it was sent; --rehash "
                                "reads all files again"));
  }
  return status;
}

}  // namespace mpsd::client
