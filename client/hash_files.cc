// SPDX-License-Identifier: Apache-2.0
#include "client/hash_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/console.h"
#include "client/daemons/private_folder.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"

namespace mpsd::client {

namespace {

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

// Removes the text up to the next space from `line`.
std::string_view NextWord(std::string_view& line) {
  const size_t end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

template <typename Number>
bool ReadNumber(std::string_view& line, Number& number) {
  const std::string_view word = NextWord(line);
  const char* const begin = &*word.begin();
  const char* const end = begin + word.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stop == end;
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
  const std::string_view sha256 = NextWord(line);
  std::string path;
  if (!IsHash(sha256) || !ReadNumber(line, mark.device) ||
      !ReadNumber(line, mark.inode) || !ReadNumber(line, mark.size_bytes) ||
      !ReadNumber(line, mark.modified_ns) ||
      !ReadNumber(line, mark.changed_ns) || !ReadNumber(line, entry.used_s) ||
      !absl::CUnescape(std::string(line), &path)) {
    return false;
  }
  entry.sha256 = std::string(sha256);
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

namespace fs = std::filesystem;

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

}  // namespace mpsd::client
