// SPDX-License-Identifier: Apache-2.0
#include "server/hub/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/spec/hub_cache.h"
#include "server/hub/hub_id.h"

namespace mpsd::hub {
namespace {

namespace fs = std::filesystem;

absl::Status MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? base::ErrnoStatus(error.value(), path.string())
               : absl::OkStatus();
}

// The entry of the cache that is `name` but for upper and lower case; "" for
// none.
std::string Namesake(const fs::path& cache, const std::string& name) {
  std::error_code error;
  for (fs::directory_iterator it(cache, error), end; !error && it != end;
       it.increment(error)) {
    const std::string other = it->path().filename().string();
    if (other != name && absl::EqualsIgnoreCase(other, name)) return other;
  }
  return "";
}

// Whether the file is a part that was last written before then. Other programs'
// parts have other names.
bool IsOldPart(const fs::path& path, absl::Time before) {
  const std::string hash = path.stem().string();
  struct stat about;
  return path.extension() == ".incomplete" &&
         (IsCommit(hash) || IsSha256(hash)) &&
         lstat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         absl::FromTimeT(about.st_mtime) < before;
}

absl::Status SyncFolder(const fs::path& folder) {
  return base::SyncPath(folder, O_RDONLY | O_DIRECTORY);
}

}  // namespace

absl::StatusOr<CacheFolder> CacheFolder::Open(const fs::path& cache,
                                              const std::string& id) {
  const std::string name = spec::RepositoryName(id);
  if (absl::Status s = MakeFolder(cache); !s.ok()) return s;
  const std::string other = Namesake(cache, name);
  if (!other.empty()) {
    return absl::InvalidArgumentError(
        base::Cat("id: the cache has ", other, ", which differs from ", id,
                  " by upper and lower case alone: name the "
                  "model as it is there"));
  }
  CacheFolder folder(cache / name, cache / ".locks" / name);
  for (const fs::path& path :
       {folder.folder_ / "blobs", folder.folder_ / "snapshots",
        folder.folder_ / "refs", folder.locks_}) {
    if (absl::Status s = MakeFolder(path); !s.ok()) return s;
  }
  return folder;
}

fs::path CacheFolder::BlobOf(const HubFile& file) const {
  return folder_ / "blobs" / file.hash;
}

bool CacheFolder::Has(const HubFile& file) const {
  std::error_code error;
  const fs::path blob = BlobOf(file);
  return fs::is_regular_file(blob, error) &&
         fs::file_size(blob, error) == static_cast<uint64_t>(file.size) &&
         !error;
}

int64_t CacheFolder::BytesOf(const HubFile& file) const {
  if (Has(file)) return file.size;
  fs::path part = BlobOf(file);
  part += ".incomplete";
  std::error_code error;
  const uintmax_t size = fs::file_size(part, error);
  if (error || size > static_cast<uint64_t>(file.size)) return 0;
  return static_cast<int64_t>(size);
}

absl::StatusOr<std::unique_ptr<CachePart>> CacheFolder::OpenPart(
    const HubFile& file, const CachePart::Stop& stop) const {
  fs::path lock = locks_ / file.hash;
  lock += ".lock";
  return CachePart::Open(BlobOf(file), lock, file, stop);
}

int CacheFolder::RemoveOldParts(const fs::path& cache, absl::Time before) {
  int removed = 0;
  std::error_code error;
  for (fs::directory_iterator it(cache, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("models--")) continue;
    std::error_code listed;
    for (fs::directory_iterator part(it->path() / "blobs", listed);
         !listed && part != end; part.increment(listed)) {
      if (IsOldPart(part->path(), before) &&
          unlink(part->path().c_str()) == 0) {
        ++removed;
      }
    }
  }
  return removed;
}

absl::Status CacheFolder::Link(const fs::path& snapshot,
                               const HubFile& file) const {
  const fs::path path = snapshot / file.path;
  if (absl::Status s = MakeFolder(path.parent_path()); !s.ok()) return s;
  const fs::path target = BlobOf(file).lexically_relative(path.parent_path());
  std::error_code error;
  if (fs::read_symlink(path, error) == target) return absl::OkStatus();
  const fs::path temporary = base::TemporaryBeside(path);
  if (symlink(target.c_str(), temporary.c_str()) != 0 ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    const int failed = errno;
    unlink(temporary.c_str());
    return base::ErrnoStatus(failed, path.string());
  }
  return SyncFolder(path.parent_path());
}

absl::Status CacheFolder::Publish(const Listing& listing,
                                  const std::string& revision) const {
  const fs::path snapshot = folder_ / "snapshots" / listing.commit;
  for (const HubFile& file : listing.files) {
    if (file.path == kConfig) continue;
    if (absl::Status s = Link(snapshot, file); !s.ok()) return s;
  }
  absl::Status s = Link(snapshot, *listing.Find(kConfig));
  if (s.ok()) s = SyncFolder(snapshot.parent_path());
  if (!s.ok() || IsCommit(revision)) return s;
  // huggingface_hub takes the ref's bytes as they are, without a line break.
  const fs::path ref = folder_ / "refs" / revision;
  s = MakeFolder(ref.parent_path());
  if (!s.ok()) return s;
  // Written elsewhere: whatever lies in refs/ is a ref for others.
  const fs::path written = base::TemporaryBeside(folder_ / "ref");
  s = base::WriteFileAtomic(written, listing.commit);
  if (s.ok() && rename(written.c_str(), ref.c_str()) != 0) {
    s = base::ErrnoStatus(errno, ref.string());
  }
  if (s.ok()) return SyncFolder(ref.parent_path());
  unlink(written.c_str());
  return s;
}

}  // namespace mpsd::hub
