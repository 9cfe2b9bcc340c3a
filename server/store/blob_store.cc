// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <optional>
#include <set>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/store/database.h"

namespace mpsd::store {

namespace fs = std::filesystem;

namespace {

// A disk that does not report it counts as having space: a write then fails.
int64_t FreeBytes(const std::filesystem::path& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(
      error ? kMost : std::min<uint64_t>(space.available, kMost));
}

}  // namespace

void DiskRoom::Reservation::Used(int64_t bytes) {
  base::CheckAtMost(0, bytes, "bytes that were written");
  bytes = std::min(bytes, ahead_);
  left_ -= bytes;
  ahead_ -= bytes;
  absl::MutexLock lock(&room_.mutex_);
  room_.reserved_ -= bytes;
  base::CheckAtMost(0, room_.reserved_, "bytes of all reservations");
}

absl::Status DiskRoom::Reservation::Prepare(int64_t bytes) {
  if (bytes <= ahead_) return absl::OkStatus();
  const int64_t more = std::max(std::min(left_, kAheadBytes), bytes) - ahead_;
  absl::MutexLock lock(&room_.mutex_);
  RETURN_IF_ERROR(room_.CheckFree(more));
  room_.reserved_ += more;
  ahead_ += more;
  return absl::OkStatus();
}

absl::Status DiskRoom::CheckFree(int64_t bytes) const {
  // The lock comes first: an upload's bytes leave reserved_ only after their
  // write, so a race may count bytes twice but never forgets them.
  const int64_t free = FreeBytes(folder_);
  if (bytes > free - min_free_bytes_ - reserved_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there is no room for ", bytes, " bytes: the disk of ",
        folder_.string(), " has ", free, " free, of which ", reserved_,
        " are for uploads under way and ", min_free_bytes_,
        " are kept free (mpsd --min-free-bytes); `mpsctl delete` removes jobs "
        "that have ended"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DiskRoom::Reservation>> DiskRoom::Reserve(
    int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckFree(bytes));
  auto reservation = std::make_unique<Reservation>(*this, bytes);
  reservation->ahead_ = std::min(bytes, kAheadBytes);
  reserved_ += reservation->ahead_;
  return reservation;
}

namespace {

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The user and the hash in a part's name; nullopt for another name.
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
        "another upload of yours sends this blob: call FindBlobs again");
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
  RETURN_IF_ERROR(parts->Find());
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

// Creates the file with that size, writable by its owner.
absl::Status PartialBlobs::Prepare(const Key& key, bool is_new,
                                   int64_t size_bytes) const {
  const fs::path path = PathOf(key);
  if (is_new) unlink(path.c_str());  // what a failed removal left
  // An interrupted commit may have left a read-only file.
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
                     " bytes of the blob are kept: call FindBlobs again"));
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

// Moves a flushed file to the blob's final path, or removes the file if the
// blob exists. Adds the folders whose entries changed to `changed`: the caller
// flushes them. `names`: the store's lock.
absl::Status PlaceBlob(const std::filesystem::path& temporary,
                       const std::filesystem::path& final_path,
                       absl::Mutex& names,
                       std::set<std::filesystem::path>& changed);

// Inserts the row of a blob, unless the row exists.
void RecordBlob(Connection& c, const std::string& sha256, int64_t size_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

namespace {

// The amount that one CatchUp reads: some milliseconds of work.
constexpr int64_t kSlice = 16 << 20;
constexpr int64_t kPiece = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobWriter::Begin(
    Database& database, absl::Mutex& names, Plan plan) {
  const fs::path& path =
      plan.part == nullptr ? plan.temporary : plan.part->path();
  const int flags = plan.part == nullptr ? O_CREAT | O_EXCL : O_NOFOLLOW;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, path.string());
  return absl::WrapUnique(new BlobWriter(database, names, std::move(plan), fd));
}

BlobWriter::BlobWriter(Database& database, absl::Mutex& names, Plan plan,
                       int fd)
    : database_(database),
      names_(names),
      plan_(std::move(plan)),
      fd_(fd),
      written_(plan_.offset_bytes) {}

BlobWriter::~BlobWriter() {
  close(fd_);
  if (plan_.part == nullptr && !committed_) unlink(path().c_str());
}

const fs::path& BlobWriter::path() const {
  return plan_.part == nullptr ? plan_.temporary : plan_.part->path();
}

absl::Status BlobWriter::Drop(absl::Status status) {
  if (plan_.part != nullptr) plan_.part->Drop();
  return status;
}

absl::StatusOr<bool> BlobWriter::CatchUp() {
  std::string piece;
  const int64_t end = std::min(hashed_ + kSlice, plan_.offset_bytes);
  while (hashed_ < end) {
    piece.resize(std::min(kPiece, end - hashed_));
    const ssize_t n = pread(fd_, piece.data(), piece.size(), hashed_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Drop(base::ErrnoStatus(errno, path().string()));
    if (n == 0) {
      return Drop(
          absl::DataLossError(absl::StrCat(path().string(),
                                           " has become shorter: send the blob "
                                           "from its beginning")));
    }
    hash_.Update({piece.data(), static_cast<size_t>(n)});
    hashed_ += n;
  }
  return hashed_ < plan_.offset_bytes;
}

absl::Status BlobWriter::Append(std::string_view bytes) {
  base::Check(!committed_, "Append comes before Commit");
  base::Check(hashed_ == written_, "CatchUp comes before Append");
  if (bytes.size() > static_cast<uint64_t>(plan_.size_bytes - written_)) {
    return Drop(absl::InvalidArgumentError(
        absl::StrCat("the blob was announced with ", plan_.size_bytes,
                     " bytes; more came")));
  }
  // Keeps the part: the upload continues once there is room again.
  RETURN_IF_ERROR(plan_.room->Prepare(static_cast<int64_t>(bytes.size())));
  if (plan_.part != nullptr) {
    RETURN_IF_ERROR(plan_.part->BeginWrite());
  }
  int64_t written = 0;
  const absl::Status status = Write(bytes, written);
  if (plan_.part != nullptr) plan_.part->EndWrite(written);
  return status.ok() ? status : Drop(status);
}

absl::Status BlobWriter::Write(std::string_view bytes, int64_t& written) {
  hash_.Update(bytes);
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), written_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path().string());
    bytes.remove_prefix(n);
    plan_.room->Used(n);
    written += n;
    written_ += n;
    hashed_ += n;
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Commit() {
  base::Check(!committed_, "Commit is called once");
  // From here on no other upload takes over the part.
  if (plan_.part != nullptr) {
    RETURN_IF_ERROR(plan_.part->BeginWrite());
  }
  RETURN_IF_ERROR(Verify());
  // The file comes before its row: MatchRows repairs a missing row at the next
  // start, but could not restore a missing file.
  RETURN_IF_ERROR(Place());
  Connection& c = database_.writer();
  return CatchSqlite("recording a blob", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    RecordBlob(c, plan_.final_path.filename().string(), plan_.size_bytes);
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status BlobWriter::Verify() {
  if (written_ != plan_.size_bytes) {
    // The bytes may be right so far, so a part is kept.
    return absl::InvalidArgumentError(
        absl::StrCat("the blob was announced with ", plan_.size_bytes,
                     " bytes; ", written_, " came"));
  }
  const std::string hash = hash_.FinishHex();
  if (hash == plan_.final_path.filename().string()) return absl::OkStatus();
  return Drop(absl::InvalidArgumentError(
      absl::StrCat("the blob's SHA-256 is ", hash, ", announced was ",
                   plan_.final_path.filename().string())));
}

absl::Status BlobWriter::Place() {
  if (fchmod(fd_, 0400) != 0) return base::ErrnoStatus(errno, path().string());
  absl::Status status = base::SyncPath(path(), O_RDONLY);
  std::set<fs::path> changed;
  if (status.ok()) {
    status = PlaceBlob(path(), plan_.final_path, names_, changed);
  }
  if (!status.ok()) return status;
  committed_ = true;
  if (plan_.part != nullptr) plan_.part->Placed();
  return base::SyncAll({changed.begin(), changed.end()});
}

namespace {

// Writes a new file, read-only for good.
absl::Status WriteNew(const fs::path& path, std::string_view bytes) {
  const base::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400));
  if (!fd.valid()) return base::ErrnoStatus(errno, path.string());
  return base::WriteAll(fd.get(), bytes, path);
}

}  // namespace

absl::Status PlaceBlob(const fs::path& temporary, const fs::path& final_path,
                       absl::Mutex& names, std::set<fs::path>& changed) {
  const fs::path folder = final_path.parent_path();
  std::error_code error;
  if (fs::create_directory(folder, error)) changed.insert(folder.parent_path());
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  {
    // Without the lock Collect could check an old blob of this name and then
    // unlink the new one.
    absl::MutexLock lock(&names);
    // An existing blob has links, which show who needs it: a new file in its
    // place would have none, and be collected. Its change time is renewed, as
    // by Has.
    const timespec now[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    struct stat info;
    const bool is_there =
        lstat(final_path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        utimensat(AT_FDCWD, final_path.c_str(), now, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there) {
      fs::remove(temporary, error);
    } else {
      fs::rename(temporary, final_path, error);
    }
  }
  if (error) return base::ErrnoStatus(error.value(), final_path.string());
  changed.insert(folder);
  return absl::OkStatus();
}

void RecordBlob(Connection& c, const std::string& sha256, int64_t size_bytes) {
  Query(c,
        "INSERT OR IGNORE INTO blobs (sha256, size_bytes, create_time_us) "
        "VALUES (?, ?, ?)",
        sha256, size_bytes, absl::ToUnixMicros(absl::Now()))
      .Run();
}

BlobBatch::~BlobBatch() {
  for (const auto& [sha256, staged] : staged_) unlink(staged.path.c_str());
}

absl::Status BlobBatch::Add(const std::string& sha256, std::string_view bytes) {
  base::Check(!committed_, "Add comes before Commit");
  const std::string hash = base::Sha256Hex(bytes);
  if (hash != sha256) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the blob's SHA-256 is ", hash, ", announced was ", sha256));
  }
  if (staged_.contains(sha256)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto room,
                   room_.Reserve(static_cast<int64_t>(bytes.size())));
  static std::atomic<int64_t> counter{0};
  const fs::path path = incoming_ / absl::StrCat(sha256, ".b", ++counter);
  // The name is recorded before the write, so that the destructor removes a
  // file that a full disk cut short.
  staged_[sha256] = {path, static_cast<int64_t>(bytes.size())};
  return WriteNew(path, bytes);
}

absl::Status BlobBatch::Commit() {
  base::Check(!std::exchange(committed_, true), "Commit is called once");
  absl::Status status = Place();
  if (status.ok()) status = Record();
  if (status.ok()) staged_.clear();
  return status;
}

absl::Status BlobBatch::Place() {
  std::vector<fs::path> written;
  written.reserve(staged_.size());
  for (const auto& [sha256, staged] : staged_) written.push_back(staged.path);
  // The files are flushed before any rename: the name of a blob guarantees its
  // bytes, even after a power cut.
  RETURN_IF_ERROR(base::SyncAll(written));
  std::set<fs::path> changed;
  for (const auto& [sha256, staged] : staged_) {
    const fs::path final_path = store_.PathOf(sha256);
    base::Check(!final_path.empty(), "what Add took is named by a hash");
    RETURN_IF_ERROR(PlaceBlob(staged.path, final_path, names_, changed));
  }
  return base::SyncAll({changed.begin(), changed.end()});
}

absl::Status BlobBatch::Record() {
  Connection& c = database_.writer();
  return CatchSqlite("recording blobs", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    for (const auto& [sha256, staged] : staged_) {
      RecordBlob(c, sha256, staged.size_bytes);
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

namespace {

absl::Status FsError(const std::error_code& error, const fs::path& path) {
  return base::ErrnoStatus(error.value(), path.string());
}

// The blobs in FOLDER/ab for every ab: name → size.
std::map<std::string, int64_t> BlobFiles(const fs::path& folder) {
  std::map<std::string, int64_t> found;
  std::error_code error;
  fs::recursive_directory_iterator file(
      folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && file != fs::recursive_directory_iterator();
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (file.depth() != 1 || !jobs::IsSha256(name)) continue;
    std::error_code unreadable;
    const auto size = file->file_size(unreadable);
    if (!unreadable) found[name] = static_cast<int64_t>(size);
  }
  return found;
}

// Whether a file of `from` can get a hard link in `to`. The probe file is kept:
// a full disk may have no space for a new one.
bool CanLink(const fs::path& from, const fs::path& to) {
  const fs::path file = from / "link-probe", link = to / ".link-probe";
  std::error_code ignored, error;
  fs::remove(link, ignored);
  const int fd = open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  close(fd);
  fs::create_hard_link(file, link, error);
  struct stat info;
  const bool linked =
      !error && stat(file.c_str(), &info) == 0 && info.st_nlink == 2;
  fs::remove(link, ignored);
  return linked;
}

bool IsUnused(const fs::path& blob, absl::Time before) {
  struct stat info;
  return lstat(blob.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_nlink == 1 &&
         absl::TimeFromTimespec(base::ChangeTime(info)) < before;
}

absl::Status CheckUpload(const std::string& sha256, int64_t size_bytes) {
  if (!jobs::IsSha256(sha256)) {
    return absl::InvalidArgumentError(
        "sha256 must be 64 lower-case hexadecimal digits");
  }
  if (size_bytes < 0) {
    return absl::InvalidArgumentError("size_bytes must not be negative");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(
    Database& database, std::filesystem::path folder, int64_t min_free_bytes) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FsError(error, folder);
  fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return FsError(error, folder);
  const fs::path incoming = folder / "incoming";
  fs::remove_all(incoming, error);
  if (!error) fs::create_directory(incoming, error);
  if (error) return FsError(error, incoming);
  ASSIGN_OR_RETURN(std::unique_ptr<PartialBlobs> parts,
                   PartialBlobs::Open(folder / "partial"));
  std::unique_ptr<BlobStore> store(new BlobStore(
      database, std::move(folder), min_free_bytes, std::move(parts)));
  RETURN_IF_ERROR(store->MatchRows());
  return store;
}

absl::Status BlobStore::MatchRows() {
  const std::map<std::string, int64_t> files = BlobFiles(folder_);
  Connection& c = database_.writer();
  return CatchSqlite("matching the blobs with their rows", [&] {
    absl::MutexLock lock(&c.mutex());
    Transaction transaction(c);
    // The names are collected first: SQLite does not define what a SELECT shows
    // of a table whose rows change during it.
    std::vector<std::string> gone;
    {
      Query rows(c, "SELECT sha256 FROM blobs");
      while (rows.Next()) {
        std::string sha256 = rows.Text();
        if (files.count(sha256) == 0) gone.push_back(std::move(sha256));
      }
    }
    for (const std::string& sha256 : gone) {
      Query(c, "DELETE FROM blobs WHERE sha256 = ?", sha256).Run();
    }
    for (const auto& [sha256, size_bytes] : files) {
      RecordBlob(c, sha256, size_bytes);
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

bool BlobStore::Has(const std::string& sha256) {
  if (!jobs::IsSha256(sha256)) return false;
  const std::string path = PathOf(sha256);
  // Only sets the access time, so that programs that compare modification times
  // see no new file.
  const timespec now[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  struct stat info;
  absl::MutexLock lock(&names_);
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  // Has() returns false for a blob that it cannot keep, so that the client
  // uploads it again.
  return utimensat(AT_FDCWD, path.c_str(), now, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<BlobPart> BlobStore::IdleParts(absl::Time before) {
  std::vector<BlobPart> parts = parts_->Idle();
  std::erase_if(
      parts, [&](const BlobPart& part) { return part.last_write >= before; });
  return parts;
}

absl::StatusOr<jobs::UnusedBlobs::Removed> BlobStore::Collect(
    const fs::path& jobs_dir, absl::Duration grace) {
  jobs::UnusedBlobs::Removed removed;
  const PartialBlobs::Freed parts =
      parts_->Collect(grace, [this](const std::string& sha256) {
        std::error_code ignored;
        return fs::exists(PathOf(sha256), ignored);
      });
  removed.parts = parts.parts;
  removed.part_bytes = parts.bytes;
  if (!CanLink(folder_, jobs_dir)) return removed;
  std::vector<std::string> gone;
  for (const auto& [sha256, size_bytes] : BlobFiles(folder_)) {
    const std::string path = PathOf(sha256);
    absl::MutexLock lock(&names_);
    if (!IsUnused(path, absl::Now() - grace)) continue;
    if (unlink(path.c_str()) != 0) continue;
    ++removed.blobs;
    removed.bytes += size_bytes;
    gone.push_back(sha256);
  }
  RETURN_IF_ERROR(Forget(gone));
  return removed;
}

absl::StatusOr<jobs::UnusedBlobs::Found> BlobStore::FindUnused(
    const fs::path& jobs_dir, absl::Duration grace, size_t limit) {
  jobs::UnusedBlobs::Found found;
  const absl::Time before = absl::Now() - grace;
  for (BlobPart& part : IdleParts(before)) {
    found.blobs.push_back(
        {std::move(part.sha256), part.size_bytes, std::move(part.user)});
  }
  if (CanLink(folder_, jobs_dir)) {
    for (const auto& [sha256, size_bytes] : BlobFiles(folder_)) {
      if (IsUnused(PathOf(sha256), before)) {
        found.blobs.push_back({sha256, size_bytes});
      }
    }
  }
  std::stable_sort(
      found.blobs.begin(), found.blobs.end(),
      [](const auto& a, const auto& b) { return a.size_bytes > b.size_bytes; });
  for (; found.blobs.size() > limit; found.blobs.pop_back()) {
    ++found.more;
    found.more_bytes += found.blobs.back().size_bytes;
  }
  return found;
}

absl::Status BlobStore::Forget(const std::vector<std::string>& gone) {
  if (gone.empty()) return absl::OkStatus();
  Connection& c = database_.writer();
  return CatchSqlite("forgetting blobs", [&] {
    absl::MutexLock lock(&c.mutex());
    Transaction transaction(c);
    for (const std::string& sha256 : gone) {
      std::error_code ignored;
      if (fs::exists(PathOf(sha256), ignored)) continue;  // uploaded again
      Query(c, "DELETE FROM blobs WHERE sha256 = ?", sha256).Run();
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

std::unique_ptr<BlobBatch> BlobStore::BeginBatch() {
  return std::make_unique<BlobBatch>(database_, *this, names_, room_,
                                     folder_ / "incoming");
}

std::string BlobStore::PathOf(const std::string& sha256) const {
  if (!jobs::IsSha256(sha256)) return "";
  return (folder_ / sha256.substr(0, 2) / sha256).string();
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Begin(
    const std::string& sha256, int64_t size_bytes) {
  RETURN_IF_ERROR(CheckUpload(sha256, size_bytes));
  return Write(sha256, size_bytes, 0, nullptr);
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Resume(
    const std::string& user, const std::string& sha256, int64_t size_bytes,
    int64_t offset_bytes) {
  RETURN_IF_ERROR(CheckUpload(sha256, size_bytes));
  if (offset_bytes < 0 || offset_bytes > size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset_bytes: is ", offset_bytes, ", expected 0 to ",
                     size_bytes, ", the blob's size"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<PartialBlobs::Hold> part,
                   parts_->Take(user, sha256, offset_bytes));
  return Write(sha256, size_bytes, offset_bytes, std::move(part));
}

absl::StatusOr<std::unique_ptr<BlobWriter>> BlobStore::Write(
    const std::string& sha256, int64_t size_bytes, int64_t offset_bytes,
    std::unique_ptr<PartialBlobs::Hold> part) {
  ASSIGN_OR_RETURN(std::unique_ptr<DiskRoom::Reservation> room,
                   room_.Reserve(size_bytes - offset_bytes));
  static std::atomic<int64_t> counter{0};
  BlobWriter::Plan plan;
  plan.final_path = PathOf(sha256);
  plan.size_bytes = size_bytes;
  plan.offset_bytes = offset_bytes;
  plan.room = std::move(room);
  plan.part = std::move(part);
  plan.temporary = folder_ / "incoming" / absl::StrCat(sha256, ".", ++counter);
  return BlobWriter::Begin(database_, names_, std::move(plan));
}

}  // namespace mpsd::store

namespace mpsd::jobs {

absl::StatusOr<UnusedBlobs::Found> UnusedBlobs::Find(size_t limit) {
  return blobs_.FindUnused(jobs_dir_, grace_, limit);
}

absl::StatusOr<UnusedBlobs::Removed> UnusedBlobs::Remove() {
  return blobs_.Collect(jobs_dir_, grace_);
}

}  // namespace mpsd::jobs
