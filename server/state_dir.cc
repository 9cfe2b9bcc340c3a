// SPDX-License-Identifier: Apache-2.0
#include "server/state_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "server/store/job.h"

namespace mpsd {

namespace fs = std::filesystem;
namespace {

absl::Status MakePrivate(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return base::ErrnoStatus(error.value(), path.string());
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  const int mkdir_error = errno;
  if (mkdir_error == EEXIST && fs::is_directory(path, error)) {
    return absl::OkStatus();
  }
  return base::ErrnoStatus(mkdir_error, path.string());
}

absl::Status InUse(const fs::path& path) {
  const absl::StatusOr<std::string> pid = base::ReadFile(path / "lock");
  return absl::UnavailableError(absl::StrCat(
      "another mpsd (pid ",
      pid.ok() && !pid->empty() ? std::string(absl::StripAsciiWhitespace(*pid))
                                : "unknown",
      ") uses ", path.string(),
      ": stop it, or choose another folder with --state-dir"));
}

// Whoever may write the folder may replace the database in it. Takes that right
// from others if the folder is mpsd's own: whoever made it may have left it.
absl::Status CheckIsPrivate(const fs::path& path, int folder) {
  struct stat info;
  if (fstat(folder, &info) != 0) return base::ErrnoStatus(errno, path.string());
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  if ((info.st_mode & kOthersWrite) == 0 ||
      (info.st_uid == geteuid() &&
       fchmod(folder, info.st_mode & 07777 & ~kOthersWrite) == 0)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      path.string(), ": other accounts may write the state folder (mode ",
      absl::StrFormat("%04o", info.st_mode & 07777),
      "): chmod go-w it, or choose another folder with --state-dir"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDir>> StateDir::Open(const fs::path& path) {
  RETURN_IF_ERROR(MakePrivate(path));
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return base::ErrnoStatus(errno, path.string());
  std::unique_ptr<StateDir> dir(new StateDir(path, folder));
  RETURN_IF_ERROR(CheckIsPrivate(path, folder));
  // Some file systems lock no folders; STATE/lock is locked on all.
  if (flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return InUse(path);
  }
  const std::string file = path / "lock";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, file);
  dir->file_ = fd;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return InUse(path);
    return base::ErrnoStatus(errno, file);
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) !=
                                   static_cast<ssize_t>(pid.size())) {
    return base::ErrnoStatus(errno, file);
  }
  return dir;
}

StateDir::~StateDir() {
  close(folder_);
  close(file_);
}

bool StateDir::IsInPlace() const {
  struct stat locked, there;
  const bool lost = fstat(folder_, &locked) != 0;  // with its disk
  if (stat(path_.c_str(), &there) != 0) return lost || errno != ENOENT;
  return !lost && locked.st_dev == there.st_dev &&
         locked.st_ino == there.st_ino;
}

namespace {

constexpr char kCheckpoints[] = "checkpoints", kResults[] = "results",
               kUploads[] = "uploads", kDatabase[] = "database",
               kLogs[] = "logs", kOther[] = "other";

// Each folder on the way holds a descriptor.
constexpr int kDeepest = 32;

// An entry's place, and the kind that its bytes have.
struct Place {
  enum class Level { kState, kJobs, kJob, kOut, kBelow };
  Level level = Level::kState;
  const char* kind = kOther;
};

// The place of `name` in the folder `place`; absent for what is not counted.
std::optional<Place> Inside(const Place& place, std::string_view name) {
  using Level = Place::Level;
  switch (place.level) {
    case Level::kState:
      if (name == "jobs") return Place{Level::kJobs, kOther};
      if (name == "blobs") return Place{Level::kBelow, kUploads};
      // Links to blobs, which are counted there.
      if (name == "models") return std::nullopt;
      if (name == "log") return Place{Level::kBelow, kLogs};
      if (name == "files") return std::nullopt;  // links to blobs
      // For a download alone: no job is removed to make room for it.
      if (name == "merges") return std::nullopt;
      return Place{Level::kBelow,
                   name.starts_with("mpsd.db") ? kDatabase : kOther};
    case Level::kJobs:
      return Place{
          jobs::IsJobId(std::string(name)) ? Level::kJob : Level::kBelow,
          kOther};
    case Level::kJob:
      if (name == "inputs") return std::nullopt;
      if (name == "out") return Place{Level::kOut, kResults};
      return Place{Level::kBelow, name == "log" ? kLogs : kOther};
    case Level::kOut:
      return Place{Level::kBelow,
                   name == "checkpoints" ? kCheckpoints : kResults};
    case Level::kBelow:
      return place;
  }
  return place;
}

// An entry that was removed, or replaced by a link, since its folder was read;
// or a folder that a job closed to mpsd. Other errors are the disk's.
bool IsLeftOut(int error) {
  return error == ENOENT || error == ELOOP || error == ENOTDIR ||
         error == EACCES || error == EPERM;
}

class Walk {
 public:
  explicit Walk(const std::atomic<bool>& stop) : stop_(stop) {
    for (const char* kind :
         {kCheckpoints, kResults, kUploads, kDatabase, kLogs, kOther}) {
      usage_.by_kind[kind] = 0;
    }
  }

  // Takes over `fd`, a folder's. `path` is for errors.
  absl::Status Folder(int fd, const Place& place,
                      const std::filesystem::path& path, int depth = 0) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(fdopendir(fd), &closedir);
    if (folder == nullptr) {
      const int error = errno;
      close(fd);
      return base::ErrnoStatus(error, path.string());
    }
    while (true) {
      if (stop_) return absl::CancelledError("mpsd is stopping");
      errno = 0;
      const dirent* entry = readdir(folder.get());
      if (entry == nullptr) {
        return errno == 0 ? absl::OkStatus()
                          : base::ErrnoStatus(errno, path.string());
      }
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      const std::optional<Place> inside = Inside(place, name);
      if (!inside) continue;
      RETURN_IF_ERROR(Entry(fd, entry->d_name, *inside, path, depth));
    }
  }

  StateUsage usage() && { return std::move(usage_); }

 private:
  absl::Status Entry(int fd, const char* name, const Place& place,
                     const std::filesystem::path& folder, int depth) {
    struct stat info;
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (IsLeftOut(errno)) return absl::OkStatus();
      return base::ErrnoStatus(errno, (folder / name).string());
    }
    if (!S_ISDIR(info.st_mode)) {
      // POSIX leaves the unit open; Linux, macOS and du(1) have 512 bytes.
      const int64_t bytes = int64_t{info.st_blocks} * 512;
      usage_.by_kind[place.kind] += bytes;
      if (!job_.empty()) CountForJob(place, bytes);
      return absl::OkStatus();
    }
    if (depth == kDeepest) return absl::OkStatus();
    const int inner =
        openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) {
      if (IsLeftOut(errno)) return absl::OkStatus();
      return base::ErrnoStatus(errno, (folder / name).string());
    }
    const bool is_job = place.level == Place::Level::kJob;
    if (is_job) job_ = name;
    absl::Status counted = Folder(inner, place, folder / name, depth + 1);
    if (is_job) job_.clear();
    return counted;
  }

  void CountForJob(const Place& place, int64_t bytes) {
    jobs::FolderBytes& folder = usage_.by_job[job_];
    folder.id = job_;
    folder.bytes += bytes;
    if (place.kind == kCheckpoints) folder.checkpoint_bytes += bytes;
  }

  const std::atomic<bool>& stop_;
  StateUsage usage_;
  std::string job_;  // whose folder the walk is in; "" in none
};

}  // namespace

int64_t StateUsage::TotalBytes() const {
  int64_t total = 0;
  for (const auto& [kind, bytes] : by_kind) total += bytes;
  return total;
}

absl::StatusOr<StateUsage> MeasureState(const std::filesystem::path& state_dir,
                                        const std::atomic<bool>& stop) {
  const int fd = open(state_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return base::ErrnoStatus(errno, state_dir.string());
  Walk walk(stop);
  RETURN_IF_ERROR(walk.Folder(fd, Place(), state_dir));
  return std::move(walk).usage();
}

namespace {

constexpr size_t kMostGroupBytes = 16 << 20;  // of a group's entry: its members

}  // namespace

absl::StatusOr<gid_t> GroupNamed(const std::string& name) {
  gid_t number = 0;
  if (absl::SimpleAtoi(name, &number)) return number;
  group entry{};
  group* found = nullptr;
  std::vector<char> buffer(16 << 10);
  int error = 0;
  while (true) {
    error =
        getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (error == EINTR) continue;
    if (error != ERANGE || buffer.size() >= kMostGroupBytes) break;
    buffer.resize(buffer.size() * 2);
  }
  if (found != nullptr) return found->gr_gid;
  // getgrnam(3) lists these numbers next to 0 for a name that no group has.
  if (error == 0 || error == ENOENT || error == ESRCH || error == EBADF ||
      error == EPERM) {
    return absl::NotFoundError(
        absl::StrCat("this machine has no group '", name, "'"));
  }
  return absl::UnavailableError(absl::StrCat(
      "the group '", name,
      "' cannot be looked up: ", std::generic_category().message(error)));
}

absl::Status LetThrough(const std::filesystem::path& folder, gid_t group) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 ||
      (info.st_gid != group &&
       chown(folder.c_str(), static_cast<uid_t>(-1), group) != 0) ||
      chmod(folder.c_str(), (info.st_mode & 07707) | S_IXGRP) != 0) {
    return base::ErrnoStatus(errno, folder.string());
  }
  return absl::OkStatus();
}

}  // namespace mpsd
