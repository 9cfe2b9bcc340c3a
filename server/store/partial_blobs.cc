// SPDX-License-Identifier: Apache-2.0
#include "server/store/partial_blobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/file_times.h"
#include "core/base/limits.h"
#include "server/jobs/blob_store.h"

namespace mpsd::store {
namespace fs = std::filesystem;
namespace {

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The user and the hash that a part's name tells; nothing for another name.
std::optional<std::pair<std::string, std::string>> KeyOf(
    const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos || !jobs::IsSha256(name.substr(0, dot))) {
    return std::nullopt;
  }
  const std::string digits = name.substr(dot + 1);
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string user;
  for (size_t i = 0; i < digits.size(); i += 2) {
    const int high = Digit(digits[i]), low = Digit(digits[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    user += static_cast<char>(high * 16 + low);
  }
  return std::make_pair(user, name.substr(0, dot));
}

}  // namespace

PartialBlobs::Hold::~Hold() {
  absl::MutexLock lock(&parts_.mutex_);
  Part* part = parts_.Held(key_, number_);
  if (part == nullptr) return;
  if (part->size_bytes == 0) {
    parts_.Remove(key_);
  } else {
    part->holder = 0;
    part->writing = false;
    part->counted_bytes = part->size_bytes;
  }
}

absl::Status PartialBlobs::Hold::BeginWrite() {
  absl::MutexLock lock(&parts_.mutex_);
  Part* part = parts_.Held(key_, number_);
  if (part == nullptr) {
    return absl::AbortedError(
        "another upload of yours goes on with this blob: ask FindBlobs again");
  }
  part->writing = true;
  return absl::OkStatus();
}

void PartialBlobs::Hold::EndWrite(int64_t bytes) {
  absl::MutexLock lock(&parts_.mutex_);
  Part* part = parts_.Held(key_, number_);
  if (part == nullptr) return;
  part->writing = false;
  part->size_bytes += bytes;
  part->last_write = parts_.options_.clock->Now();
  part->heard = parts_.options_.clock->Monotonic();
}

void PartialBlobs::Hold::Drop() {
  absl::MutexLock lock(&parts_.mutex_);
  if (parts_.Held(key_, number_) != nullptr) parts_.Remove(key_);
}

void PartialBlobs::Hold::Placed() {
  absl::MutexLock lock(&parts_.mutex_);
  if (parts_.Held(key_, number_) != nullptr) parts_.parts_.erase(key_);
}

absl::StatusOr<std::unique_ptr<PartialBlobs>> PartialBlobs::Open(
    fs::path folder, Options options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  std::unique_ptr<PartialBlobs> parts =
      absl::WrapUnique(new PartialBlobs(std::move(folder), options));
  absl::Status found = parts->Find();
  if (!found.ok()) return found;
  return parts;
}

absl::Status PartialBlobs::Find() {
  absl::MutexLock lock(&mutex_);
  std::error_code error;
  for (fs::directory_iterator file(folder_, error), end; !error && file != end;
       file.increment(error)) {
    const fs::path path = file->path();
    const auto key = KeyOf(path.filename().string());
    struct stat info;
    if (!key || lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_size == 0) {
      std::error_code ignored;
      fs::remove_all(path, ignored);
      continue;
    }
    Part part;
    part.size_bytes = part.counted_bytes = info.st_size;
    part.last_write = absl::TimeFromTimespec(base::ModificationTime(info));
    parts_[*key] = part;
  }
  return error ? base::ErrnoStatus(error.value(), folder_.string())
               : absl::OkStatus();
}

fs::path PartialBlobs::PathOf(const Key& key) const {
  return folder_ /
         absl::StrCat(key.second, ".", absl::BytesToHexString(key.first));
}

bool PartialBlobs::IsFree(const Part& part) const {
  if (part.holder == 0) return true;
  return !part.writing &&
         options_.clock->Monotonic() - part.heard >= options_.silence;
}

PartialBlobs::Part* PartialBlobs::Held(const Key& key, int64_t number) {
  const auto found = parts_.find(key);
  return found == parts_.end() || found->second.holder != number
             ? nullptr
             : &found->second;
}

void PartialBlobs::Remove(const Key& key) {
  unlink(PathOf(key).c_str());
  parts_.erase(key);
}

int64_t PartialBlobs::KeptBytes(const std::string& user,
                                const std::string& sha256) {
  absl::MutexLock lock(&mutex_);
  const auto part = parts_.find({user, sha256});
  return part == parts_.end() || !IsFree(part->second)
             ? 0
             : part->second.size_bytes;
}

int64_t PartialBlobs::BytesOf(const std::string& user) {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (auto part = parts_.lower_bound({user, ""});
       part != parts_.end() && part->first.first == user; ++part) {
    bytes += part->second.counted_bytes;
  }
  return bytes;
}

bool PartialBlobs::MakeRoom(const std::string& user) {
  size_t count = 0;
  auto oldest = parts_.end();
  for (auto part = parts_.lower_bound({user, ""});
       part != parts_.end() && part->first.first == user; ++part) {
    ++count;
    if (part->second.holder != 0) continue;
    if (oldest == parts_.end() ||
        part->second.last_write < oldest->second.last_write) {
      oldest = part;
    }
  }
  if (count < options_.most_of_user) return true;
  if (oldest == parts_.end()) return false;
  Remove(Key(oldest->first));
  return true;
}

// Makes the file exist with that size, for its owner to write.
absl::Status PartialBlobs::Prepare(const Key& key, bool is_new,
                                   int64_t size_bytes) const {
  const fs::path path = PathOf(key);
  if (is_new) unlink(path.c_str());  // what a failed removal left
  // A commit that was cut off may have left a file that is read-only.
  if (!is_new) chmod(path.c_str(), 0600);
  const int flags = is_new ? O_CREAT | O_EXCL : O_NOFOLLOW;
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  const int error = ftruncate(fd, size_bytes) == 0 ? 0 : errno;
  close(fd);
  return error == 0 ? absl::OkStatus()
                    : base::ErrnoStatus(error, path.string());
}

absl::StatusOr<std::unique_ptr<PartialBlobs::Hold>> PartialBlobs::Take(
    const std::string& user, const std::string& sha256, int64_t offset_bytes) {
  // A file's name has no more room.
  if (user.size() > limits::kUserBytes && offset_bytes == 0) return nullptr;
  const Key key(user, sha256);
  absl::MutexLock lock(&mutex_);
  const auto found = parts_.find(key);
  const bool is_new = found == parts_.end();
  const bool is_free = is_new || IsFree(found->second);
  const int64_t kept = is_new || !is_free ? 0 : found->second.size_bytes;
  if (offset_bytes != 0 && offset_bytes != kept) {
    return absl::OutOfRangeError(
        absl::StrCat("offset_bytes: is ", offset_bytes, ", and ", kept,
                     " bytes of the blob are kept: ask FindBlobs again"));
  }
  if (!is_free || (is_new && !MakeRoom(user))) return nullptr;
  if (absl::Status s = Prepare(key, is_new, offset_bytes); !s.ok()) {
    if (!is_new) Remove(key);
    return s;
  }
  Part& part = parts_[key];
  part.size_bytes = part.counted_bytes = offset_bytes;
  part.last_write = options_.clock->Now();
  part.holder = ++holds_;
  part.writing = false;
  part.heard = options_.clock->Monotonic();
  return absl::WrapUnique(new Hold(*this, key, PathOf(key), part.holder));
}

PartialBlobs::Freed PartialBlobs::Collect(
    absl::Duration grace,
    const std::function<bool(const std::string&)>& is_whole) {
  const absl::Time before = options_.clock->Now() - grace;
  Freed freed;
  absl::MutexLock lock(&mutex_);
  for (auto part = parts_.begin(); part != parts_.end();) {
    const Key key = part->first;
    const Part& value = (part++)->second;
    if (value.holder != 0) continue;
    if (value.last_write >= before && !is_whole(key.second)) continue;
    ++freed.parts;
    freed.bytes += value.size_bytes;
    Remove(key);
  }
  return freed;
}

std::vector<BlobPart> PartialBlobs::Idle() {
  std::vector<BlobPart> idle;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, part] : parts_) {
    if (part.holder != 0) continue;
    idle.push_back({key.first, key.second, part.size_bytes, part.last_write});
  }
  return idle;
}

}  // namespace mpsd::store
