// SPDX-License-Identifier: Apache-2.0
#include "client/submit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/app.h"
#include "client/command_line.h"
#include "client/console.h"
#include "client/daemons/context_store.h"
#include "client/jobs.h"
#include "client/model.h"
#include "client/show.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/watch.h"
#include "core/base/check.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/monitor.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/spec/fields.h"
#include "core/spec/idle_fields.h"
#include "core/spec/json_node.h"
#include "core/spec/train_spec.h"
#include "nlohmann/json.hpp"

namespace mpsd::client {

namespace {

// How long to try again once the connection broke.
constexpr absl::Duration kReconnectPatience = absl::Minutes(10);

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "mpsctl hashes 1\n";
constexpr std::string_view kLastLine = "all ";  // and the hash of what is above
constexpr absl::Duration kStep = absl::Seconds(2);
// How much later a use must be to write the file again.
constexpr int64_t kUseStep = int64_t{24} * 3600;  // seconds

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool IsHash(std::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The whole file around its lines.
std::string All(const std::string& lines) {
  std::string text(kFirstLine);
  text += lines;
  text += kLastLine;
  return text + base::Sha256Hex(lines) + "\n";
}

}  // namespace

FileMark MarkOf(const struct stat& info) {
  FileMark mark;
  mark.device = static_cast<uint64_t>(info.st_dev);
  mark.inode = info.st_ino;
  mark.size_bytes = info.st_size;
  mark.modified_ns = Nanoseconds(base::ModificationTime(info));
  mark.changed_ns = Nanoseconds(base::ChangeTime(info));
  return mark;
}

bool IsSettled(const FileMark& mark, absl::Time now) {
  return std::max(mark.modified_ns, mark.changed_ns) <
         absl::ToUnixNanos(now - kStep);
}

HashCache HashCache::Load(const fs::path& file, Bounds bounds) {
  HashCache cache(file, bounds);
  if (file.empty()) return cache;
  const auto folder = PrivateFolder::Open(file.parent_path());
  if (!folder.ok()) return cache;
  const auto text = (*folder)->Read(file.filename().string(), bounds.bytes);
  if (text.ok() && !cache.Read(*text)) cache.entries_.clear();
  return cache;
}

bool HashCache::Read(std::string_view text) {
  if (!text.starts_with(kFirstLine)) return false;
  text.remove_prefix(kFirstLine.size());
  const size_t last = text.rfind(kLastLine);
  if (last == std::string_view::npos) return false;
  const std::string_view sum = text.substr(last + kLastLine.size());
  text = text.substr(0, last);
  // A file with a valid end is complete: only mpsctl writes it, but a disk may
  // lose bytes of it.
  if (sum != base::Sha256Hex(text) + "\n") return false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos || !ReadLine(text.substr(0, end))) {
      return false;
    }
    text.remove_prefix(end + 1);
  }
  return true;
}

bool HashCache::ReadLine(std::string_view line) {
  Entry entry;
  FileMark& mark = entry.mark;
  // The hash, six numbers and the path.
  std::vector<std::string> words =
      absl::StrSplit(std::string(line), absl::MaxSplits(' ', 7));
  std::string path;
  if (words.size() != 8 || !IsHash(words[0]) ||
      !absl::SimpleAtoi(words[1], &mark.device) ||
      !absl::SimpleAtoi(words[2], &mark.inode) ||
      !absl::SimpleAtoi(words[3], &mark.size_bytes) ||
      !absl::SimpleAtoi(words[4], &mark.modified_ns) ||
      !absl::SimpleAtoi(words[5], &mark.changed_ns) ||
      !absl::SimpleAtoi(words[6], &entry.used_s) ||
      !absl::CUnescape(words[7], &path)) {
    return false;
  }
  entry.sha256 = std::move(words[0]);
  entries_[std::move(path)] = std::move(entry);
  return true;
}

std::optional<std::string> HashCache::Find(const std::string& path,
                                           const FileMark& mark,
                                           absl::Time now) {
  const auto found = entries_.find(path);
  if (found == entries_.end() || found->second.mark != mark) {
    return std::nullopt;
  }
  const int64_t used = absl::ToUnixSeconds(now);
  if (used - found->second.used_s > kUseStep) {
    found->second.used_s = used;
    changed_ = true;
  }
  return found->second.sha256;
}

void HashCache::Keep(const std::string& path, const FileMark& mark,
                     std::string_view sha256, absl::Time now) {
  if (file_.empty()) return;
  entries_[path] = {mark, std::string(sha256), absl::ToUnixSeconds(now)};
  changed_ = true;
}

absl::Status HashCache::Save() {
  if (file_.empty() || !changed_) return absl::OkStatus();
  std::vector<const std::pair<const std::string, Entry>*> order;
  order.reserve(entries_.size());
  for (const auto& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.used_s != b->second.used_s
               ? a->second.used_s > b->second.used_s
               : a->first < b->first;
  });
  std::string text;
  if (order.size() > bounds_.entries) order.resize(bounds_.entries);
  for (const auto* entry : order) {
    const FileMark& mark = entry->second.mark;
    const std::string line = absl::StrCat(
        entry->second.sha256, " ", mark.device, " ", mark.inode, " ",
        mark.size_bytes, " ", mark.modified_ns, " ", mark.changed_ns, " ",
        entry->second.used_s, " ", absl::CEscape(entry->first), "\n");
    constexpr int64_t kRest = 128;  // the first and the last line
    const auto bytes = static_cast<int64_t>(text.size() + line.size());
    if (bytes + kRest > bounds_.bytes) break;
    text += line;
  }
  ASSIGN_OR_RETURN(const auto folder, PrivateFolder::Make(file_.parent_path()));
  const std::string name = file_.filename().string();
  // Also removes what killed processes left, which may be as large as the
  // cache.
  absl::Status status = folder->Remove(name);
  if (status.ok()) {
    status = folder->Write(name, All(text));
  }
  if (status.ok()) changed_ = false;
  return status;
}

fs::path HashCachePath() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && fs::path(xdg).is_absolute()) {
    return fs::path(xdg) / "mpsctl" / "hashes";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || !fs::path(home).is_absolute()) return "";
  return fs::path(home) / ".cache" / "mpsctl" / "hashes";
}

namespace {

// --- Hashing -----------------------------------------------------------------

constexpr unsigned kMostThreads = 8;
constexpr size_t kPiece = 1 << 20;  // bytes of one read

struct Hashed {
  std::string sha256;
  int64_t size_bytes = 0;
  FileMark mark;
  bool settled = false;  // the hash is that of every later file with this mark
};

// Uses read(), not a mapping: a file truncated meanwhile would end the process.
class HashedFile {
 public:
  explicit HashedFile(const fs::path& path)
      : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

  template <typename Count>
  absl::Status Hash(absl::Time begin, std::string& buffer, const Count& count,
                    Hashed& out) {
    struct stat before, after;
    if (!fd_.valid() || fstat(fd_.get(), &before) != 0) return Errno();
    buffer.resize(kPiece);
    base::Sha256 hash;
    while (true) {
      const ssize_t n = read(fd_.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Errno();
      if (n == 0) break;
      hash.Update({buffer.data(), static_cast<size_t>(n)});
      out.size_bytes += n;
      count(n);
    }
    if (fstat(fd_.get(), &after) != 0) return Errno();
    out.sha256 = hash.FinishHex();
    out.mark = MarkOf(after);
    out.settled = MarkOf(before) == out.mark && IsSettled(out.mark, begin) &&
                  out.mark.size_bytes == out.size_bytes;
    return absl::OkStatus();
  }

 private:
  absl::Status Errno() const {
    return base::ErrnoStatus(errno, path_.string());
  }

  const fs::path& path_;
  const base::UniqueFd fd_;
};

// The files whose hash is not in the cache, read by several threads.
class Reader {
 public:
  Reader(const std::vector<const LocalFile*>& files, int64_t total,
         const HashOptions& options)
      : files_(files),
        total_(total),
        options_(options),
        hashed_(files.size()),
        first_failed_(files.size()) {}

  absl::Status Run() {
    const size_t threads = std::min<size_t>(
        files_.size(),
        std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
    std::vector<std::thread> others;
    for (size_t i = 1; i < threads; ++i) {
      others.emplace_back([this] { Read(); });
    }
    Read();
    for (std::thread& thread : others) thread.join();
    absl::MutexLock lock(&mutex_);
    return failed_;
  }
  const std::vector<Hashed>& hashed() const { return hashed_; }

 private:
  void Read() {
    std::string buffer;
    for (size_t i = next_++; i < files_.size() && i < first_failed_;
         i = next_++) {
      absl::Status status =
          HashedFile(files_[i]->local)
              .Hash(
                  options_.clock->Now(), buffer,
                  [this](int64_t n) { Count(n); }, hashed_[i]);
      if (status.ok()) continue;
      absl::MutexLock lock(&mutex_);
      // If several cannot be read, the first of them is named.
      if (i < first_failed_) {
        first_failed_ = i;
        failed_ = std::move(status);
      }
    }
  }

  void Count(int64_t bytes) {
    if (options_.progress == nullptr) return;
    absl::MutexLock lock(&mutex_);
    done_ += bytes;
    options_.progress(done_, total_);
  }

  const std::vector<const LocalFile*>& files_;
  const int64_t total_;
  const HashOptions& options_;
  std::vector<Hashed> hashed_;
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> first_failed_;
  absl::Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

HashOptions Hashing(const Console& console, bool rehash) {
  auto line = std::make_shared<ProgressLine>(console);
  return {HashCachePath(), rehash, [line](int64_t done, int64_t total) {
            if (done >= total) return line->Clear();
            line->Draw(done, total,
                       absl::StrCat("reading  ", base::BytesText(done), "/",
                                    base::BytesText(total)));
          }};
}

absl::Status HashFiles(std::vector<LocalFile>& files,
                       const HashOptions& options) {
  HashCache cache = HashCache::Load(options.cache);
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const absl::Time now = options.clock->Now();
  std::vector<LocalFile*> to_read;
  std::vector<std::string> keys;
  int64_t total = 0;
  for (LocalFile& file : files) {
    std::string key = (here / file.local).lexically_normal().string();
    struct stat info;
    if (stat(file.local.c_str(), &info) != 0) {
      return base::ErrnoStatus(errno, file.local.string());
    }
    const FileMark mark = MarkOf(info);
    std::optional<std::string> known;
    if (!options.rehash) known = cache.Find(key, mark, now);
    if (known.has_value()) {
      file.sha256 = *std::move(known);
      file.size_bytes = mark.size_bytes;
      continue;
    }
    to_read.push_back(&file);
    keys.push_back(std::move(key));
    total += mark.size_bytes;
  }
  const std::vector<const LocalFile*> reads(to_read.begin(), to_read.end());
  Reader reader(reads, total, options);
  RETURN_IF_ERROR(reader.Run());
  for (size_t i = 0; i < to_read.size(); ++i) {
    const Hashed& hashed = reader.hashed()[i];
    to_read[i]->sha256 = hashed.sha256;
    to_read[i]->size_bytes = hashed.size_bytes;
    if (hashed.settled) cache.Keep(keys[i], hashed.mark, hashed.sha256, now);
  }
  cache.Save().IgnoreError();  // it costs the time of reading once more
  return absl::OkStatus();
}

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
constexpr int kSubmitTries = 6;
constexpr absl::Duration kFirstWait = absl::Milliseconds(250);

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
struct LackedFile {
  const LocalFile* file;
  int64_t offset = 0;
};

// Several small files, sent together, or one file of any size.
using Parcel = std::vector<LackedFile>;

// The files among `files` that the daemon does not have, each content once.
class Question {
 public:
  explicit Question(const std::vector<LocalFile>& files) {
    std::unordered_set<std::string_view> known;
    for (const LocalFile& file : files) {
      if (known.insert(file.sha256).second) files_.push_back({&file});
    }
  }

  grpc::Status Ask(Connection& daemon, std::vector<LackedFile>& missing) const {
    missing.clear();
    for (size_t begin = 0; begin < files_.size(); begin += kMaxHashes) {
      v1::FindBlobsRequest request;
      const size_t end = std::min(begin + kMaxHashes, files_.size());
      for (size_t i = begin; i < end; ++i) {
        request.add_sha256(files_[i].file->sha256);
      }
      v1::FindBlobsResponse response;
      const grpc::Status status =
          daemon.Call(&ArtifactStub::FindBlobs, request, &response);
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
  std::vector<LackedFile> files_;
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
    line_.Draw(
        sent_, total_,
        absl::StrCat("uploading ", Printable(path), "  ",
                     base::BytesText(sent_), "/", base::BytesText(total_)));
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
        error_(fd_.valid() ? 0 : errno) {}

  // Fills all of `bytes` from offset `at`.
  grpc::Status Read(int64_t at, std::string& bytes) {
    const size_t wanted = bytes.size();
    absl::StatusOr<std::string> read;
    if (error_ == 0) {
      read = base::ReadAt(fd_.get(), at, wanted, file_.local);
    } else {
      read = base::ErrnoStatus(error_, file_.local.string());
    }
    if (!read.ok()) return Invalid(std::string(read.status().message()));
    bytes = *std::move(read);
    return bytes.size() == wanted ? grpc::Status::OK : Changed(file_);
  }
  // Whether the file ends at `size`.
  bool EndsAt(int64_t size) {
    char beyond;
    return pread(fd_.get(), &beyond, 1, size) == 0;
  }

 private:
  const LocalFile& file_;
  const base::UniqueFd fd_;
  const int error_;
};

// The large files come first, the largest at the head: their streams end last.
std::vector<Parcel> Parcels(const std::vector<LackedFile>& missing) {
  std::vector<Parcel> large, small;
  int64_t bytes = 0;
  for (const LackedFile& one : missing) {
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
  Uploader(ArtifactStub& artifacts, Progress& progress,
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
    for (const LackedFile& one : parcel) {
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
    return End(context, *writer, read);
  }

  // Ends a stream of which `read` is OK unless a file could not be read.
  template <typename Writer>
  static grpc::Status End(grpc::ClientContext& context, Writer& writer,
                          const grpc::Status& read) {
    if (!read.ok()) context.TryCancel();
    writer.WritesDone();
    const grpc::Status ended = writer.Finish();
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

  grpc::Status SendAlone(const LackedFile& one) {
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
    return End(context, *writer, read);
  }

  ArtifactStub& artifacts_;
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
      : console_(console),
        question_(files),
        reconnect_(console, kReconnectPatience) {}

  grpc::Status Run() {
    grpc::Status status = Turn();
    while (!status.ok() && ShouldResume(status)) status = Turn();
    return status;
  }

 private:
  grpc::Status Turn() {
    std::vector<LackedFile> missing;
    grpc::Status status = question_.Ask(console_.daemon, missing);
    if (!status.ok() || missing.empty()) return status;
    int64_t total = 0, kept = 0;
    went_on_ = false;
    for (const LackedFile& one : missing) {
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
    return Uploader(console_.daemon.artifacts(), progress, Parcels(missing))
        .Run();
  }

  bool ShouldResume(const grpc::Status& status) {
    if (IsBusy(status)) {
      if (busy_ == kSubmitTries) return false;
      console_.terminal.sleep(kFirstWait * (1 << busy_++));
      return true;
    }
    switch (status.error_code()) {
      case grpc::StatusCode::INVALID_ARGUMENT:
        // What the daemon had stored was not the file's beginning; it has
        // dropped it by now.
        return std::exchange(went_on_, false) && ++fruitless_ < kSubmitTries;
      case grpc::StatusCode::ABORTED:
      case grpc::StatusCode::OUT_OF_RANGE:
      case grpc::StatusCode::DATA_LOSS:
        return ++fruitless_ < kSubmitTries;
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

bool LacksUpload(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
         absl::StrContains(status.error_message(), "has not been uploaded");
}

namespace {

absl::Status Missing(const std::string& field, const std::string& path,
                     const fs::path& local, const char* what) {
  return absl::NotFoundError(absl::StrCat(
      field, " names '", path, "', and there is no ", what, " ",
      local.lexically_normal().string(),
      ". Relative paths are resolved from the folder of job.json."));
}

bool Hidden(const fs::path& relative) {
  return std::any_of(relative.begin(), relative.end(), [](const fs::path& p) {
    return absl::StartsWith(p.string(), ".");
  });
}

// The regular files below `folder`, relative to it; hidden files are omitted.
absl::StatusOr<std::vector<fs::path>> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> relatives;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (!it->is_regular_file()) continue;
    const fs::path relative = it->path().lexically_relative(folder);
    if (!Hidden(relative)) relatives.push_back(relative);
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  std::sort(relatives.begin(), relatives.end());
  return relatives;
}

}  // namespace

std::string DataKind(const fs::path& file) {
  const std::string end = absl::AsciiStrToLower(file.extension().string());
  if (end == ".csv") return "CSV";
  if (end == ".tsv") return "TSV";
  return end == ".jsonl" || end == ".json" ? "JSON" : "";
}

fs::path NamedPath(const fs::path& path, const fs::path& base) {
  const fs::path normal = path.lexically_normal();
  if (normal.empty() || (normal != "." && *--normal.end() != "..")) {
    return normal;
  }
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(base / path, error), error);
}

absl::StatusOr<std::vector<std::string>> FindDataFiles(
    const fs::path& folder, const std::string& except) {
  std::set<std::string> names, kinds, others;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path name = it->path().filename();
    if (Hidden(name) || name == except || name == "job.json") continue;
    const std::string kind = DataKind(name);
    (kind.empty() ? others : names).insert(name.string());
    if (!kind.empty()) kinds.insert(kind);
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  if (kinds.size() == 1) return std::vector(names.begin(), names.end());
  constexpr size_t kNamed = 8;
  const bool none = kinds.empty();
  std::vector<std::string> named;
  for (const std::string& name : none ? others : names) {
    if (named.size() < kNamed) named.push_back(name);
  }
  std::string text =
      absl::StrCat(folder.string(), ": ",
                   none ? "has no data file" : "has several kinds of data",
                   named.empty() ? "" : ": ", absl::StrJoin(named, ", "),
                   "; expected .csv, .tsv, .jsonl or .json");
  for (const std::string& name : named) {
    const absl::Status read = spec::CheckKindIsRead(name, "");
    if (read.ok()) continue;
    absl::StrAppend(&text, ". ", read.message());
    break;
  }
  return absl::InvalidArgumentError(text);
}

namespace {

// Collects the files that a spec names, each once.
class Collector {
 public:
  Collector(const spec::TrainSpec& spec, const fs::path& base, PreparedJob& job)
      : spec_(spec), base_(base), job_(job) {}

  absl::Status Run() {
    const spec::DatasetSpec& dataset = spec_.dataset;
    const std::pair<const char*, const std::vector<std::string>&> sets[] = {
        {"dataset.train", dataset.train},
        {"dataset.eval", dataset.eval},
        {"dataset.predict", dataset.predict}};
    for (const auto& [field, paths] : sets) {
      std::vector<std::string> named = paths;
      for (std::string& path : named) {
        const fs::path name = NamedPath(path, base_);
        if (name != fs::path(path).lexically_normal()) path = name.string();
        RETURN_IF_ERROR(AddData(field, path));
      }
      if (named == paths) continue;
      auto json = nlohmann::ordered_json::parse(job_.spec_json);
      RETURN_IF_ERROR(spec::SetField(json, field, named));
      job_.spec_json = json.dump(2);
    }
    absl::Status status = AddPlace("adapter", spec_.adapter);
    if (status.ok()) status = AddChatTemplate();
    if (!status.ok() || job_.files.size() <= limits::kInputs) return status;
    return absl::InvalidArgumentError(absl::StrCat(
        "the job names ", job_.files.size(), " files, more than the ",
        limits::kInputs,
        " that can be uploaded: put the images into one .safetensors file, or "
        "onto the daemon's machine and give its absolute path there"));
  }

 private:
  bool images() const { return spec_.task == spec::Task::kImageCls; }

  absl::Status AddFile(const std::string& path, const fs::path& local) {
    if (!known_.insert(path).second) return absl::OkStatus();
    job_.files.push_back({path, local, "", 0});
    return absl::OkStatus();
  }

  absl::Status AddFolder(const std::string& path, const fs::path& folder) {
    ASSIGN_OR_RETURN(std::vector<fs::path> relatives, FilesBelow(folder));
    const char* slash = absl::EndsWith(path, "/") ? "" : "/";
    for (const fs::path& relative : relatives) {
      RETURN_IF_ERROR(
          AddFile(absl::StrCat(path, slash, relative.generic_string()),
                  folder / relative));
    }
    return absl::OkStatus();
  }

  absl::Status AddData(const std::string& field, const std::string& path) {
    const fs::path local = base_ / path;
    std::error_code error;
    if (fs::is_regular_file(local, error)) {
      absl::Status status = AddFile(path, local);
      const bool rows = images() && local.extension() != ".safetensors";
      return status.ok() && rows ? AddImages(path, local) : status;
    }
    if (images() && fs::is_directory(local, error)) {
      return AddFolder(path, local);
    }
    if (fs::path(path).is_absolute() && !fs::exists(local, error)) {
      return absl::OkStatus();
    }
    if (!images() && fs::is_directory(local, error)) {
      const auto names = FindDataFiles(local);
      return absl::InvalidArgumentError(
          names.ok() ? absl::StrCat(field, " names the folder '", path,
                                    "'; name the files in it: ",
                                    absl::StrJoin(*names, ", "))
                     : absl::StrCat(field, ": ", names.status().message()));
    }
    return Missing(field, path, local, images() ? "file or folder" : "file");
  }

  // Adds the images that rows of JSON Lines name, relative to that file's
  // folder. The worker refuses rows that cannot be read.
  absl::Status AddImages(const std::string& path, const fs::path& local) {
    ASSIGN_OR_RETURN(std::string text, base::ReadFile(local));
    std::istringstream lines(std::move(text));
    std::string line;
    for (int64_t number = 1; std::getline(lines, line); ++number) {
      const std::optional<std::string> image = ImageOf(line);
      if (!image || fs::path(*image).is_absolute()) continue;
      const fs::path file = local.parent_path() / *image;
      std::error_code error;
      if (!fs::is_regular_file(file, error)) {
        return absl::NotFoundError(
            absl::StrCat(local.string(), ":", number, ": there is no image ",
                         file.lexically_normal().string()));
      }
      const fs::path spelled = fs::path(path).parent_path() / *image;
      RETURN_IF_ERROR(
          AddFile(spelled.lexically_normal().generic_string(), file));
    }
    return absl::OkStatus();
  }

  std::optional<std::string> ImageOf(const std::string& line) const {
    const auto row = base::ParseTree<nlohmann::json>(line);
    if (!row.is_object()) return std::nullopt;
    const std::string& column = spec_.dataset.image_column;
    const auto image = row.find(column.empty() ? "image" : column);
    if (image == row.end() || !image->is_string()) return std::nullopt;
    return image->get<std::string>();
  }

  // Adds a folder of this machine, or leaves an absolute path to the daemon.
  absl::Status AddPlace(const std::string& field, const std::string& path) {
    const fs::path folder = base_ / path;
    std::error_code error;
    if (path.empty() || spec::NamesResult(path)) return absl::OkStatus();
    if (fs::is_directory(folder, error)) return AddFolder(path, folder);
    if (fs::path(path).is_absolute()) return absl::OkStatus();
    return Missing(field, path, folder, "folder");
  }

  // Takes from a folder, perhaps a model's, only the template's files.
  absl::Status AddChatTemplate() {
    constexpr char kField[] = "training.chat_template_path";
    const std::string& path = spec_.training.chat_template_path;
    const fs::path local = base_ / path;
    std::error_code error;
    if (path.empty()) return absl::OkStatus();
    if (fs::is_regular_file(local, error)) return AddFile(path, local);
    if (!fs::is_directory(local, error)) {
      if (fs::path(path).is_absolute()) return absl::OkStatus();
      return Missing(kField, path, local, "file or folder");
    }
    const size_t before = job_.files.size();
    const char* slash = absl::EndsWith(path, "/") ? "" : "/";
    for (const char* name : {"chat_template.jinja", "tokenizer_config.json",
                             "special_tokens_map.json", "added_tokens.json"}) {
      if (!fs::is_regular_file(local / name, error)) continue;
      RETURN_IF_ERROR(AddFile(absl::StrCat(path, slash, name), local / name));
    }
    if (job_.files.size() > before) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(
        kField, ": ", local.string(),
        " has neither chat_template.jinja nor tokenizer_config.json"));
  }

  const spec::TrainSpec& spec_;
  const fs::path& base_;
  PreparedJob& job_;
  std::set<std::string> known_;
};

bool LooksLikePath(const std::string& model) {
  return absl::StartsWith(model, "./") || absl::StartsWith(model, "../") ||
         absl::StartsWith(model, "~");
}

absl::Status PlaceModel(const std::string& model, const fs::path& base,
                        PreparedJob& job) {
  if (fs::path(model).is_absolute() || spec::NamesResult(model)) {
    return absl::OkStatus();
  }
  std::error_code error;
  const fs::path local = fs::absolute(base / model, error).lexically_normal();
  if (!fs::is_directory(local, error)) {
    if (LooksLikePath(model)) return Missing("model", model, local, "folder");
    return absl::OkStatus();  // an id in the daemon's Hugging Face cache
  }
  auto spec = nlohmann::ordered_json::parse(job.spec_json);
  spec["model"] = local.string();
  job.spec_json = spec.dump(2);
  return absl::OkStatus();
}

constexpr char kStandardInput[] = "-";

// A weight file given by mistake as job.json is not read. A pipe, such as a
// shell's <(…), has no size.
absl::StatusOr<std::string> ReadSpec(const std::string& path) {
  if (path == kStandardInput) {
    std::string text = ReadStandardInput(limits::kSpecBytes);
    if (text.size() <= limits::kSpecBytes) return text;
    return absl::InvalidArgumentError(
        "standard input: longer than a job.json may be");
  }
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(
        absl::StrCat(base::ErrnoStatus(ENOENT, path).message(),
                     "; `mpsctl init DATA` writes a job.json for your data"));
  }
  const std::string end = fs::path(path).extension().string();
  if (end == ".yaml" || end == ".yml") {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": YAML, which mpsd does not read; write the job as JSON"));
  }
  if (fs::is_directory(status) || !spec::CheckKindIsRead(path, "").ok() ||
      (end != ".json" && !DataKind(path).empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a job.json, not the data; `mpsctl init ",
                     path, "` writes a job.json for them"));
  }
  if (fs::is_regular_file(status)) {
    return base::ReadSmallFile(path, limits::kSpecBytes);
  }
  return base::ReadFile(path);
}

// `set` with the fields that have an option of their own.
std::vector<std::string> WithOptions(std::vector<std::string> set,
                                     const std::string& name,
                                     const std::string& model) {
  const std::pair<const char*, std::string> fields[] = {{"name=", name},
                                                        {"model=", model}};
  for (const auto& [field, value] : fields) {
    if (value.empty()) continue;
    set.push_back(absl::StrCat(
        field, nlohmann::json(value).dump(
                   -1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  return set;
}

// The text of job.json, changed; *origin is what errors call it.
absl::StatusOr<std::string> ReadJob(const JobFile& job, std::string* origin) {
  std::string text = job.text;
  if (text.empty()) {
    ASSIGN_OR_RETURN(text, ReadSpec(job.path));
  }
  *origin = job.path == kStandardInput ? "standard input" : job.path;
  const auto set = WithOptions(job.set, job.name, job.model);
  if (set.empty() && job.unset.empty()) return text;
  RETURN_IF_ERROR(spec::ParseJson(text, *origin).status());
  *origin += " as changed by the command line";
  return EditSpec(text, set, job.unset);
}

}  // namespace

v1::SubmitRequest RequestOf(const PreparedJob& job) {
  v1::SubmitRequest request;
  request.set_spec_json(job.spec_json);
  for (const LocalFile& file : job.files) {
    v1::InputFile* input = request.add_inputs();
    input->set_path(file.path);
    input->set_sha256(file.sha256);
  }
  return request;
}

absl::StatusOr<PreparedJob> PrepareJob(const JobFile& file,
                                       const HashOptions& hashing) {
  PreparedJob job;
  std::string origin;
  ASSIGN_OR_RETURN(job.spec_json, ReadJob(file, &origin));
  ASSIGN_OR_RETURN(spec::TrainSpec spec,
                   spec::ParseNewSpec(job.spec_json, origin));
  job.warnings = spec::IdleWarnings(spec);
  const fs::path base = fs::path(file.path).parent_path();
  absl::Status status = Collector(spec, base, job).Run();
  if (status.ok()) status = PlaceModel(spec.model, base, job);
  if (status.ok()) status = HashFiles(job.files, hashing);
  if (!status.ok()) return status;
  return job;
}

namespace {

// --- Submit ------------------------------------------------------------------

constexpr absl::Duration kLongest = absl::Minutes(10);  // as the proto says

// `took`: how long the answer took.
grpc::Status AskInfo(const Console& console, absl::Duration* took) {
  v1::InfoResponse info;
  const absl::Duration begin = console.terminal.clock->Monotonic();
  const grpc::Status status = console.daemon.Call(&DaemonStub::Info, {}, &info);
  *took = console.terminal.clock->Monotonic() - begin;
  return status;
}

// Calls the daemon and returns the call's status. On success stores in
// `request`, for the job's record, how long a small call takes.
grpc::Status Reach(const Console& console, v1::SubmitRequest* request) {
  absl::Duration first, second;
  const grpc::Status status = AskInfo(console, &first);
  if (!status.ok()) return status;
  // The first call may have opened the connection, which takes several round
  // trips.
  const absl::Duration took =
      AskInfo(console, &second).ok() ? std::min(first, second) : first;
  request->set_round_trip_seconds(
      absl::ToDoubleSeconds(std::clamp(took, absl::ZeroDuration(), kLongest)));
  return status;
}

// The time of one attempt that counts at most: a daemon may have been busy for
// long before it became unreachable.
constexpr absl::Duration kOneAttempt = absl::Minutes(1);
// Prints a remark if an answer takes longer.
constexpr absl::Duration kSoon = absl::Seconds(10);

// Whether Submit may have created a job although it ended with `status`.
bool LeavesOpen(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return true;
    case grpc::StatusCode::UNKNOWN:
      // gRPC reports some broken connections with this text.
      return status.error_message() == "Stream removed";
    default:
      return false;
  }
}

class SureSubmit {
 public:
  SureSubmit(const Console& console, v1::SubmitRequest* request,
             const std::function<grpc::Status()>& upload)
      : console_(console),
        request_(*request),
        upload_(upload),
        pause_(console) {}

  ExitCode Run(v1::SubmitResponse* response) {
    // A failure here cannot have queued a job.
    grpc::Status status = Reach(console_, &request_);
    if (!status.ok()) return console_.Fail(status);
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [this] { CancelAttempt(); });
    while (true) {
      const absl::Duration begin = console_.terminal.clock->Monotonic();
      status = Attempt(response);
      const absl::Duration took = console_.terminal.clock->Monotonic() - begin;
      if (status.ok()) return ExitCode::kOk;
      if (listener.raised()) {
        return NotKnown(ExitCode::kDetached, "interrupted");
      }
      if (LacksUpload(status) && !std::exchange(uploaded_again_, true)) {
        status = upload_();
        if (status.ok()) continue;
      }
      if (!LeavesOpen(status)) return Refused(status);
      if (waited_ >= kReconnectPatience) {
        return NotKnown(
            ExitCode::kTryAgain,
            absl::StrCat("no answer from mpsd: ", status.error_message()));
      }
      Pause();
      waited_ += std::min(took, kOneAttempt);
    }
  }

 private:
  grpc::Status Attempt(v1::SubmitResponse* response) {
    grpc::ClientContext context;
    SetAttempt(&context);
    grpc::Status status;
    base::Event done;
    console_.daemon.jobs().async()->Submit(&context, &request_, response,
                                           [&](grpc::Status ended) {
                                             status = std::move(ended);
                                             done.Set();
                                           });
    if (!done.AwaitFor(kSoon)) RemarkUpon();
    done.AwaitFor(absl::InfiniteDuration());
    SetAttempt(nullptr);
    return status;
  }

  void SetAttempt(grpc::ClientContext* context) {
    absl::MutexLock lock(&mutex_);
    attempt_ = context;
    if (attempt_ != nullptr && cancelled_) attempt_->TryCancel();
  }

  void CancelAttempt() {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (attempt_ != nullptr) attempt_->TryCancel();
  }

  void RemarkUpon() {
    if (std::exchange(remarked_, true)) return;
    console_.err << "mpsctl: mpsd is still storing the job, which has "
                 << request_.inputs_size()
                 << (request_.inputs_size() == 1 ? " file" : " files")
                 << "; waiting for it\n"
                 << std::flush;
  }

  ExitCode Refused(const grpc::Status& status) const {
    const std::string next = ModelAdvice(request_.spec_json(), status);
    if (next.empty()) return console_.Fail(status);
    return console_.Fail(ForStatus(status), Printable(status.error_message()),
                         next);
  }

  void Pause() {
    if (waited_ == absl::ZeroDuration()) {
      console_.err << "mpsctl: no answer from mpsd yet; sending the job again "
                      "under the same key, for "
                   << Seconds(kReconnectPatience) << '\n'
                   << std::flush;
    }
    waited_ += pause_.Wait();
  }

  ExitCode NotKnown(ExitCode code, const std::string& why) const {
    return console_.Fail(
        code, absl::StrCat(why, "; the job may have been queued"),
        absl::StrCat("Submit it with --idempotency-key ",
                     request_.idempotency_key(),
                     " to get that job, or to queue it if there is none; "
                     "`mpsctl list` shows the latest."));
  }

  const Console& console_;
  v1::SubmitRequest& request_;
  const std::function<grpc::Status()>& upload_;
  bool uploaded_again_ = false;
  bool remarked_ = false;
  RetryPause pause_;
  absl::Duration waited_ = absl::ZeroDuration();

  absl::Mutex mutex_;
  grpc::ClientContext* attempt_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;  // by Ctrl-C
};

}  // namespace

std::string NewIdempotencyKey() {
  std::random_device random;
  std::string key = "mpsctl-";
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&key, absl::StrFormat("%08x", random()));
  }
  return key;
}

ExitCode SubmitSurely(const Console& console, v1::SubmitRequest* request,
                      const std::function<grpc::Status()>& upload,
                      v1::SubmitResponse* response) {
  return SureSubmit(console, request, upload).Run(response);
}

namespace {

void PrintSubmitted(const Console& console, const v1::SubmitResponse& response,
                    bool detach) {
  const v1::Job& job = response.job();
  if (console.json) return console.PrintJson(job);
  console.out << "Job " << job.id()
              << (response.existed() ? " was submitted before: "
                                     : " submitted: ")
              << StateName(job.state()) << AheadText(job) << '\n';
  // Why it will not start: another job or a user has to act first.
  if (!IsFinal(job.state()) && (job.held() || !job.after().empty()) &&
      !job.hold().empty()) {
    console.out << (job.held() ? "It is held: " : "It ")
                << Printable(job.hold()) << '\n';
  }
  // Watch prints the warnings, too.
  for (const std::string& warning : job.warnings()) {
    if (detach) console.err << "warning: " << Printable(warning) << '\n';
  }
  if (job.data_check_pending()) {
    console.out << "Its data are still being checked: if they have a fault, it "
                   "ends before its turn.\n";
  }
  if (detach) {
    console.out << "Follow it with `mpsctl watch " << job.id() << "`.\n";
  }
  console.out << std::flush;
}

// Waits some seconds for the daemon's check of a new job's data; returns the
// job after it. Ctrl-C ends the wait.
v1::Job AwaitDataCheck(const Console& console, v1::Job job) {
  constexpr absl::Duration kPoll = absl::Milliseconds(100);
  constexpr int kPolls = 50;
  const Interrupt::Listener listener(console.terminal.interrupt, [] {});
  for (int i = 0; i < kPolls && job.data_check_pending(); ++i) {
    console.terminal.sleep(kPoll);
    if (listener.raised() || !GetJob(console, job.id(), &job).ok()) break;
  }
  return job;
}

// Whether the daemon refused the job's data before the job ran.
bool IsRefused(const v1::Job& job) {
  return job.state() == v1::JOB_STATE_FAILED && job.attempt() == 0 &&
         job.exit_reason() == "Rejected";
}

}  // namespace

ExitCode SendJob(const Console& console, v1::SubmitRequest request,
                 const std::function<grpc::Status()>& upload, bool detach,
                 std::string* job_id) {
  const bool own_key = request.idempotency_key().empty();
  if (own_key) request.set_idempotency_key(NewIdempotencyKey());
  v1::SubmitResponse response;
  const ExitCode code = SubmitSurely(console, &request, upload, &response);
  if (code != ExitCode::kOk) return code;
  if (job_id != nullptr) *job_id = response.job().id();
  // With a generated key, an existing job comes from an earlier attempt of this
  // call.
  if (own_key) response.set_existed(false);
  const v1::Job checked = AwaitDataCheck(console, response.job());
  if (IsRefused(checked)) {
    return console.BadInput(
        absl::StrCat("job ", checked.id(), " was refused: ", checked.message()),
        "Correct the data or job.json, and submit it again.");
  }
  // Otherwise the job is printed as it was queued.
  v1::Job& job = *response.mutable_job();
  job.set_data_check_pending(checked.data_check_pending());
  *job.mutable_warnings() = checked.warnings();
  PrintSubmitted(console, response, detach);
  if (detach) return ExitCode::kOk;
  return Watch(console, {.id = response.job().id()});
}

namespace {

struct SubmitOptions {
  QueueOptions queue;
  std::string idempotency_key;
  std::vector<std::string> after;
  bool hold = false;
};

ExitCode Submit(const SubmitOptions& options, const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto after = ResolveJobIds(console, options.after, &code);
  if (!after) return code;
  PreparedJob job;
  v1::SubmitRequest request;
  code =
      PrepareToSend(console, options.queue, kNothingSubmitted, &job, &request);
  if (code != ExitCode::kOk) return code;
  request.set_idempotency_key(options.idempotency_key);
  request.set_held(options.hold);
  request.mutable_after()->Assign(after->begin(), after->end());
  return SendJob(
      console, std::move(request), [&] { return Upload(console, job.files); },
      options.queue.detach);
}

void DeclareSubmit(Command& verb, SubmitOptions& options) {
  DeclareQueueing(verb, options.queue);
  verb.add_option("--name NAME", options.queue.job.name, "The job's name");
  verb.add_option("--idempotency-key KEY", options.idempotency_key,
                  "The same key and job return the existing job;\n"
                  "default: a key unique to this call");
  verb.add_list("--after ID", options.after,
                "Start once this job has succeeded; repeatable");
  verb.add_flag("--hold", options.hold,
                "Queue it held: it starts after `mpsctl release`");
}

// --- Clone -------------------------------------------------------------------

using Json = nlohmann::ordered_json;

absl::Status Invalid(const std::string& option, const std::string& text,
                     const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " '", text, "': ", what));
}

absl::Status Set(Json& spec, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return Invalid("--set", text, "expected FIELD=VALUE");
  }
  const absl::Status set = spec::SetField(
      spec, text.substr(0, equals), spec::FieldValue(text.substr(equals + 1)));
  return set.ok() ? set : Invalid("--set", text, std::string(set.message()));
}

absl::Status Unset(Json& spec, const std::string& field) {
  const absl::Status unset = spec::UnsetField(spec, field);
  return unset.ok() ? unset
                    : Invalid("--unset", field, std::string(unset.message()));
}

using Flat = std::vector<std::pair<std::string, std::string>>;

// Lists stay whole: their elements have no names. A tree that keeps the order
// of fields would search all of them for each.
void Flatten(const nlohmann::json& json, const std::string& prefix,
             Flat& flat) {
  for (const auto& [key, value] : json.items()) {
    const std::string field =
        prefix.empty() ? key : absl::StrCat(prefix, ".", key);
    if (value.is_object() && !value.empty()) {
      Flatten(value, field, flat);
    } else {
      flat.emplace_back(field, value.dump());
    }
  }
}

Flat Flattened(const std::string& text) {
  Flat flat;
  const auto json = base::ParseTree<nlohmann::json>(text);
  if (json.is_object()) Flatten(json, "", flat);
  return flat;
}

std::string Normal(const std::string& path) {
  std::string normal =
      std::filesystem::path(path).lexically_normal().generic_string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

// Whether `named` contains the path or a folder above it.
bool IsNamed(const std::set<std::string>& named, const std::string& path) {
  if (named.contains(path) || named.contains(".")) return true;
  for (size_t at = path.rfind('/'); at != std::string::npos && at > 0;
       at = path.rfind('/', at - 1)) {
    if (named.contains(path.substr(0, at))) return true;
  }
  return false;
}

void DeclareEdits(Command& verb, std::vector<std::string>& set,
                  std::vector<std::string>& unset) {
  verb.add_list("--set FIELD=VALUE", set,
                "Change a field: training.learning_rate=1e-4;\n"
                "VALUE is JSON or plain text; repeatable");
  verb.add_list("--unset FIELD", unset,
                "Reset a field to its default; repeatable");
}

}  // namespace

void DeclareJobFile(Command& verb, JobFile& job) {
  verb.add_option("JOB", job.path, "The job.json; -: standard input")
      ->check(Given)
      ->capture_default_str();
  DeclareEdits(verb, job.set, job.unset);
  verb.add_option("--model MODEL", job.model, "The model, as in job.json");
  verb.add_flag("--rehash", job.rehash,
                "Read every file again, also those that have not changed\n"
                "since mpsctl read them last");
}

void DeclareQueueing(Command& verb, QueueOptions& options) {
  DeclareJobFile(verb, options.job);
  DeclareSending(verb, options);
}

void DeclareSending(Command& verb, QueueOptions& options) {
  verb.add_flag("-d,--detach", options.detach,
                "Do not watch: exit once queued");
  verb.add_option("--priority N", options.priority,
                  "Higher runs first, equals in turn")
      ->capture_default_str();
  verb.add_list("--label NAME=VALUE", options.job_labels,
                "To find the job by; repeatable");
  verb.add_flag("--anyway", options.anyway,
                "Queue it even if it needs more memory than the machine has");
}

ExitCode PrepareToSend(const Console& console, const QueueOptions& options,
                       const char* nothing, PreparedJob* job,
                       v1::SubmitRequest* request) {
  const JobFile& file = options.job;
  auto prepared = PrepareJob(file, Hashing(console, file.rehash));
  if (!prepared.ok()) return console.BadInput(prepared.status(), nothing);
  *job = *std::move(prepared);
  for (const std::string& warning : job->warnings) {
    console.err << "warning: " << file.path << ": " << Printable(warning)
                << '\n';
  }
  *request = RequestOf(*job);
  request->set_priority(options.priority);
  request->set_anyway(options.anyway);
  const absl::Status added =
      AddJobLabels(options.job_labels, request->mutable_labels());
  if (!added.ok()) return console.BadInput(added, nothing);
  const grpc::Status sent = Upload(console, job->files);
  return sent.ok() ? ExitCode::kOk : console.Fail(sent);
}

absl::StatusOr<std::string> EditSpec(const std::string& spec_json,
                                     const std::vector<std::string>& set,
                                     const std::vector<std::string>& unset) {
  if (set.empty() && unset.empty()) return spec_json;
  Json spec = base::ParseTree<Json>(spec_json);
  if (!spec.is_object()) {
    return absl::InvalidArgumentError("the job's spec is not a JSON object");
  }
  for (const std::string& text : set) {
    RETURN_IF_ERROR(Set(spec, text));
  }
  for (const std::string& field : unset) {
    RETURN_IF_ERROR(Unset(spec, field));
  }
  return spec.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string WithDefaults(const std::string& spec_json) {
  const auto spec = spec::ParseTrainSpec(spec_json, "job.json");
  return spec.ok() ? spec::ToJson(*spec) : spec_json;
}

std::vector<FieldChange> CompareSpecs(const std::string& a,
                                      const std::string& b) {
  const Flat left = Flattened(a), right = Flattened(b);
  std::map<std::string, std::string> others(right.begin(), right.end());
  std::vector<FieldChange> changes;
  for (const auto& [field, value] : left) {
    const auto other = others.extract(field);
    const std::string theirs = other.empty() ? "" : other.mapped();
    if (value != theirs) changes.push_back({field, value, theirs});
  }
  for (const auto& [field, value] : right) {
    if (others.contains(field)) changes.push_back({field, "", value});
  }
  return changes;
}

void DropUnusedInputs(v1::SubmitRequest& request) {
  const auto spec = spec::ParseTrainSpec(request.spec_json(), "job.json");
  if (!spec.ok() || spec->task == spec::Task::kImageCls) return;
  std::set<std::string> named;
  spec::VisitPaths(*spec, [&](const char*, const std::string& path) {
    if (!path.empty()) named.insert(Normal(path));
  });
  auto& inputs = *request.mutable_inputs();
  const auto unused = std::remove_if(
      inputs.begin(), inputs.end(),
      [&](const auto& input) { return !IsNamed(named, Normal(input.path())); });
  inputs.erase(unused, inputs.end());
}

namespace {

struct CloneOptions {
  std::string id;
  std::vector<std::string> set, unset, after, job_labels;
  std::string name;
  std::optional<int32_t> priority;
  bool hold = false, anyway = false, detach = false, dry_run = false;
};

std::string Shown(const std::string& json) {
  return json.empty() ? "(absent)" : json;
}

// What differs in the clone; `a` and `b` are the two specs.
void PrintChanges(const Console& console, const std::string& id,
                  const std::string& a, const std::string& b) {
  if (console.json) return;
  const std::vector<FieldChange> changes =
      CompareSpecs(WithDefaults(a), WithDefaults(b));
  if (changes.empty()) {
    console.out << "The clone has the spec of job " << id << ".\n";
    return;
  }
  Table table({"FIELD", "JOB", "CLONE"});
  for (const FieldChange& change : changes) {
    table.Add({change.field, Shown(change.a), Shown(change.b)});
  }
  console.Print(table);
}

// "moods-2" for "moods", "moods-3" for "moods-2": a name that no job has.
std::string NextName(const Console& console, const std::string& name) {
  const auto exists = [&](const std::string& other) {
    v1::FindJobsRequest request;
    request.set_id_part(other);
    v1::FindJobsResponse found;
    return console.daemon.Call(&JobStub::FindJobs, request, &found).ok() &&
           std::any_of(found.jobs().begin(), found.jobs().end(),
                       [&](const v1::Job& job) { return job.name() == other; });
  };
  const size_t dash = name.rfind('-');
  const bool counts =
      dash != name.npos && dash + 1 < name.size() &&
      name.find_first_not_of("0123456789", dash + 1) == name.npos &&
      exists(name.substr(0, dash));
  const std::string stem = counts ? name.substr(0, dash) : name;
  int number = 2;
  while (exists(absl::StrCat(stem, "-", number))) ++number;
  return absl::StrCat(stem, "-", number);
}

// Changes `request`, which is a job's, to the clone's.
absl::Status Change(const CloneOptions& options, v1::SubmitRequest& request) {
  ASSIGN_OR_RETURN(
      std::string spec,
      EditSpec(request.spec_json(), WithOptions(options.set, options.name, ""),
               options.unset));
  ASSIGN_OR_RETURN(const auto parsed, spec::ParseTrainSpec(spec, ""));
  request.set_spec_json(std::move(spec));
  DropUnusedInputs(request);
  // A label of the command line replaces the job's.
  google::protobuf::Map<std::string, std::string> job_labels;
  absl::Status added = AddJobLabels(options.job_labels, &job_labels);
  for (const auto& [key, value] : job_labels) {
    (*request.mutable_labels())[key] = value;
  }
  if (options.priority) request.set_priority(*options.priority);
  request.set_anyway(request.anyway() || options.anyway);
  request.set_held(options.hold);
  // The jobs that the original waited for existed when it was submitted; the
  // clone waits for those of the command line.
  request.clear_after();
  return added;
}

ExitCode Clone(const CloneOptions& options, const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, options.id, &code);
  if (!id) return code;
  const auto after = ResolveJobIds(console, options.after, &code);
  if (!after) return code;

  v1::GetSubmissionRequest ask;
  ask.set_id(*id);
  v1::SubmitRequest request;
  const grpc::Status status =
      console.daemon.Call(&JobStub::GetSubmission, ask, &request);
  if (!status.ok()) return console.Fail(status);
  const std::string spec = request.spec_json();
  CloneOptions change = options;
  const auto original = spec::ParseTrainSpec(spec, "job.json");
  if (original.ok() && !original->name.empty() && change.name.empty() &&
      std::none_of(change.set.begin(), change.set.end(), [](const auto& set) {
        return absl::StartsWith(set, "name=");
      })) {
    change.name = NextName(console, original->name);
  }
  if (absl::Status s = Change(change, request); !s.ok()) {
    return console.BadInput(s, kNothingSubmitted);
  }
  request.mutable_after()->Assign(after->begin(), after->end());
  PrintChanges(console, *id, spec, request.spec_json());
  if (options.dry_run) {
    if (console.json) console.PrintJson(request);
    return ExitCode::kOk;
  }
  // The job's inputs exist as long as the job: nothing is sent.
  const auto no_upload = [] { return grpc::Status::OK; };
  return SendJob(console, std::move(request), no_upload, options.detach);
}

void DeclareClone(Command& verb, CloneOptions& options) {
  verb.add_argument(kJobIdName, options.id, "The job");
  DeclareEdits(verb, options.set, options.unset);
  verb.add_option("--name NAME", options.name, "The clone's name");
  verb.add_list("--after ID", options.after,
                "Start once this job has succeeded; repeatable");
  verb.add_option("--priority N", options.priority,
                  "Higher runs first; default: the job's");
  verb.add_list("--label NAME=VALUE", options.job_labels,
                "In addition to the job's labels; repeatable");
  verb.add_flag("--hold", options.hold, "Queue it held");
  verb.add_flag("--anyway", options.anyway,
                "Queue it even if it needs more memory than the machine has");
  verb.add_flag("-d,--detach", options.detach,
                "Do not watch: exit once queued");
  verb.add_flag("--dry-run", options.dry_run,
                "Show what would change; with --json the request");
}

}  // namespace

std::vector<Verb> SubmitVerbs() {
  return {
      {"submit", "Upload what a job.json names, queue it, watch it",
       Takes(DeclareSubmit, Submit),
       "mpsctl submit job.json\n"
       "mpsctl submit job.json --detach --after moods"},
      {"clone", "Queue a job like another, with its data",
       Takes(DeclareClone, Clone),
       "mpsctl clone @last --set training.learning_rate=1e-4"},
  };
}

}  // namespace mpsd::client
