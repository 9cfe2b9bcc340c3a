// SPDX-License-Identifier: Apache-2.0
#include "client/hash_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/hash_cache.h"
#include "client/progress_line.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/sha256.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostThreads = 8;
constexpr size_t kPiece = 1 << 20;  // bytes of one read

struct Hashed {
  std::string sha256;
  int64_t size_bytes = 0;
  FileMark mark;
  bool settled = false;  // the hash is that of every later file of this mark
};

// Reads by read(), not by a mapping: a file that is cut short meanwhile would
// end the process.
class HashedFile {
 public:
  explicit HashedFile(const fs::path& path)
      : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~HashedFile() {
    if (fd_ >= 0) close(fd_);
  }
  HashedFile(const HashedFile&) = delete;
  HashedFile& operator=(const HashedFile&) = delete;

  template <typename Count>
  absl::Status Hash(absl::Time begin, std::string& buffer, const Count& count,
                    Hashed& out) {
    struct stat before, after;
    if (fd_ < 0 || fstat(fd_, &before) != 0) return Errno();
    buffer.resize(kPiece);
    base::Sha256 hash;
    while (true) {
      const ssize_t n = read(fd_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Errno();
      if (n == 0) break;
      hash.Update({buffer.data(), static_cast<size_t>(n)});
      out.size_bytes += n;
      count(n);
    }
    if (fstat(fd_, &after) != 0) return Errno();
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
  const int fd_;
};

// The files whose hash the cache does not have, read on several threads.
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
      // Where several cannot be read, the first of them is named.
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
            line->Draw(
                done, total,
                absl::StrCat("reading  ", Bytes(done), "/", Bytes(total)));
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
  absl::Status status = reader.Run();
  if (!status.ok()) return status;
  for (size_t i = 0; i < to_read.size(); ++i) {
    const Hashed& hashed = reader.hashed()[i];
    to_read[i]->sha256 = hashed.sha256;
    to_read[i]->size_bytes = hashed.size_bytes;
    if (hashed.settled) cache.Keep(keys[i], hashed.mark, hashed.sha256, now);
  }
  cache.Save().IgnoreError();  // it costs the time of reading once more
  return absl::OkStatus();
}

}  // namespace mpsd::client
