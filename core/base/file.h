// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// What a process reads and writes: errors of the system, the folders that a job
// may read, whole files, files and folders that appear complete or not at all,
// flushes to the drive.
namespace mpsd::base {

// --- folders of the account --------------------------------------------------

// HOME if it is an absolute path, else the home folder of the account; never
// relative, because others may own the current folder.
std::filesystem::path HomeFolder();
// ~/.local/state/mpsd; on macOS ~/Library/Application Support/mpsd. mpsctl
// finds an mpsd without --state-dir there.
std::filesystem::path DefaultStateDir();

// --- errors ------------------------------------------------------------------

// An absl::Status for errno `error`: its code, with "<what>: <strerror>".
absl::Status ErrnoStatus(int error, std::string_view what);

// The errno from which ErrnoStatus made `status`, also after the
// status was copied or returned; 0 for any other status, including a new one
// that quotes its text.
int ErrnoOf(const absl::Status& status);

// `status` with `error` attached for ErrnoOf.
absl::Status WithErrno(absl::Status status, int error);

// Whether the same call may succeed later without any change by the caller: a
// full disk or quota, no free descriptor, a device that fails or is gone, a
// volume that became read-only. Out of memory does not count: the caller itself
// may cause it.
bool IsMachineFault(int error);

// --- reading -----------------------------------------------------------------

// `path` with every link resolved, a dangling one too; the part that does not
// exist is appended as written. nullopt if the target is unknown: a folder that
// may not be searched.
std::optional<std::filesystem::path> ResolveLinks(
    const std::filesystem::path& path);

// Folders whose files may be read. Symbolic links are resolved, in the folders'
// paths and in a file's path, before they are compared: a link that leads out
// of the folders is outside, and a folder may be given as a link. A path that
// does not exist is compared by its name, so that the answer never reveals
// whether a file outside exists. Thread-safe.
class ReadRoots {
 public:
  // A folder that does not exist is compared by its name. Nothing below
  // `closed` may be read, except what is below one of `folders` that is itself
  // below `closed`, or equal to it.
  explicit ReadRoots(const std::vector<std::filesystem::path>& folders,
                     const std::vector<std::filesystem::path>& closed = {});

  // Whether `path` is one of the folders or is below one.
  bool Contain(const std::filesystem::path& path) const;

  // Opens a regular file below the folders for reading; a link put into the
  // path meanwhile is not followed. FailedPrecondition for a path outside, with
  // the same text whether a file exists there or not; InvalidArgument for
  // anything but a regular file; NotFound and the like. Every error names the
  // path.
  absl::StatusOr<int> Open(const std::filesystem::path& path) const;

 private:
  bool Lies(const std::filesystem::path& resolved) const;

  // By resolved path: whether what is below may be read. The deepest decides.
  std::map<std::filesystem::path, bool> folders_;
  std::set<std::pair<dev_t, ino_t>> closed_;
};

// From now on ReadFile and MappedFile open no file outside `roots` in this
// process: a path named by a job cannot lead elsewhere. Call it once, before
// any reading thread starts.
void LimitReads(ReadRoots roots);

// Opens a file that LimitReads allows (any file if LimitReads was not called)
// with O_RDONLY and `flags`. `within`, if not null, must contain the file too.
absl::StatusOr<int> OpenToRead(const std::filesystem::path& path,
                               const ReadRoots* within = nullptr,
                               int flags = 0);

// Whether LimitReads allows the path, such as a folder to be listed; otherwise
// FailedPrecondition with the text of ReadRoots::Open.
absl::Status CheckMayRead(const std::filesystem::path& path);

// The whole file. NotFound, PermissionDenied or Internal, naming the path.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path);
// For a file that `within` must contain too.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path,
                                     const ReadRoots& within);

// Reads a whole file that somebody else chose. It must be a regular file,
// tested on the open descriptor, so that no pipe or device blocks or floods the
// reader, and at most `max_bytes` long even if it grows during the read:
// InvalidArgument otherwise. NotFound, PermissionDenied or Internal as
// ReadFile. Each error names the path. Opens nothing outside `within`, if not
// null, even if a link in the path changes meanwhile.
absl::StatusOr<std::string> ReadSmallFile(const std::filesystem::path& path,
                                          size_t max_bytes,
                                          const ReadRoots* within = nullptr);

// Reads a file that holds a key or a token. FailedPrecondition if anyone but
// its owner and group may read it, or anyone but its owner may write it;
// otherwise the errors of ReadSmallFile.
absl::StatusOr<std::string> ReadSecretFile(const std::filesystem::path& path,
                                           size_t max_bytes);

// A read-only mapping of a whole file. The bytes stay valid while the object
// lives.
class MappedFile {
 public:
  // NotFound, PermissionDenied or Internal, naming the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(
      const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

  // Tells the kernel that [offset, offset + length) will not be read again, so
  // that its pages stop counting against this process.
  void DropPages(size_t offset, size_t length) const;

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}
  const char* data_;
  size_t size_;
};

// When the file's bytes (mtime) or its inode (ctime) last changed: members of
// stat that macOS names differently from POSIX.
inline timespec ModificationTime(const struct stat& info) {
#ifdef __APPLE__
  return info.st_mtimespec;
#else
  return info.st_mtim;
#endif
}
inline timespec ChangeTime(const struct stat& info) {
#ifdef __APPLE__
  return info.st_ctimespec;
#else
  return info.st_ctim;
#endif
}

// --- writing -----------------------------------------------------------------

// Replaces `path` as a whole: written next to it, fsynced, renamed, the folder
// fsynced. After OK the new bytes survive a power cut; after an error the old
// file is untouched.
absl::Status WriteFileAtomic(const std::filesystem::path& path,
                             std::string_view bytes);

// A file that is written in pieces and appears under its name complete or not
// at all. Destroyed without Commit, it is removed; a process killed before then
// leaves a file that IsUnfinished recognises.
class AtomicFile {
 public:
  // NotFound, PermissionDenied, ResourceExhausted …, naming the path.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(std::string_view bytes);
  // Fsyncs the file, renames it and fsyncs the folder: after OK the bytes
  // survive a power cut; after an error an existing file of that name is
  // untouched.
  absl::Status Commit();
  // Like Commit without the fsyncs: a power cut may leave an incomplete file.
  absl::Status CommitUnsynced();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary,
             int fd);
  void Close();

  const std::filesystem::path path_;
  const std::filesystem::path temporary_;
  int fd_;  // -1: closed
  bool committed_ = false;
};

// A path in the same folder as `path`, with a new name at every call.
std::filesystem::path TemporaryBeside(const std::filesystem::path& path);
// Whether the file's name is one that TemporaryBeside makes.
bool IsUnfinished(const std::filesystem::path& path);

// A folder that appears under its final name complete or not at all. Write
// below staging(); Commit() fsyncs the tree and renames it to the final path,
// replacing an existing folder. Destroyed without Commit, the object removes
// the staged files.
class StagedFolder {
 public:
  static absl::StatusOr<StagedFolder> Create(std::filesystem::path final_path);
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  const std::filesystem::path& staging() const { return staging_; }
  absl::Status Commit();

 private:
  StagedFolder(std::filesystem::path final_path, std::filesystem::path staging)
      : final_(std::move(final_path)), staging_(std::move(staging)) {}
  std::filesystem::path final_;
  std::filesystem::path staging_;  // empty once committed or moved from
};

// Swaps the files or folders at `a` and `b` atomically: at any moment each path
// names one of the two. Both must exist, on one file system. Where the file
// system has no such swap, this renames three times through a temporary name
// next to `b`; a process killed between the renames loses no bytes, but leaves
// one of the two under the temporary name. Fsyncs nothing.
absl::Status ExchangePaths(const std::filesystem::path& a,
                           const std::filesystem::path& b);

// --- flushing ----------------------------------------------------------------

// Flushes the file or folder to the drive itself, not only to the drive's
// cache; `flags` are those of open().
absl::Status SyncPath(const std::filesystem::path& path, int flags);

// Fsyncs every file below `dir` and `dir` itself.
absl::Status SyncTree(const std::filesystem::path& dir);

// Flushes files and folders of one file system to the drive: after OK they
// survive a power cut. Waits for the drive as rarely as the system allows: for
// many paths Linux flushes the file system once; macOS writes every file to the
// drive and then flushes the drive's cache once.
absl::Status SyncAll(const std::vector<std::filesystem::path>& paths);

}  // namespace mpsd::base
