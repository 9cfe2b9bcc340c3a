// SPDX-License-Identifier: Apache-2.0
#include "server/models/hub_models.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <system_error>

#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/spec/hub_cache.h"
#include "server/models/folder_bytes.h"

namespace mpsd::models {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<fs::path> CacheEntries() {
  return EntriesOf(spec::HubCacheFolder());
}

absl::StatusOr<std::string> AnySnapshot(const std::string& id,
                                        const fs::path& repository) {
  for (const fs::path& snapshot : EntriesOf(repository / "snapshots")) {
    absl::StatusOr<std::string> found =
        spec::FindInHubCache(id + "@" + snapshot.filename().string());
    if (found.ok()) return found;
  }
  return absl::NotFoundError("no snapshot");
}

absl::Time ModificationTime(const fs::path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::UnixEpoch();
  return absl::FromTimeT(info.st_mtime);
}

}  // namespace

std::vector<HubModel> ListHubModels(const std::string& name, size_t limit) {
  std::vector<HubModel> models;
  for (const fs::path& repository : CacheEntries()) {
    if (models.size() == limit) break;
    const std::string id = spec::IdOfRepository(repository.filename().string());
    if (id.empty() || (!name.empty() && id != name)) continue;
    absl::StatusOr<std::string> snapshot = spec::FindInHubCache(id);
    HubModel model;
    model.is_main = snapshot.ok();
    if (!snapshot.ok()) snapshot = AnySnapshot(id, repository);
    if (!snapshot.ok()) continue;
    model.name = id;
    model.folder = *snapshot;
    model.revision = model.folder.filename().string();
    model.repository = repository;
    model.size_bytes = FolderBytes(repository);
    model.create_time = ModificationTime(model.folder);
    models.push_back(std::move(model));
  }
  return models;
}

absl::StatusOr<int64_t> RemoveHubModel(const HubModel& model) {
  const fs::path doomed = base::TemporaryBeside(model.repository);
  std::error_code error;
  fs::rename(model.repository, doomed, error);
  if (error) {
    return base::ErrnoStatus(error.value(), model.repository.string());
  }
  fs::remove_all(doomed, error);
  // The cache's own tools keep their locks beside it.
  std::error_code ignored;
  fs::remove_all(
      model.repository.parent_path() / ".locks" / model.repository.filename(),
      ignored);
  if (error) return base::ErrnoStatus(error.value(), doomed.string());
  return model.size_bytes;
}

void SweepHubModels() {
  std::error_code ignored;
  for (const fs::path& entry : CacheEntries()) {
    const std::string name = entry.filename().string();
    if (base::IsUnfinished(entry) && name.find("models--") == 1) {
      fs::remove_all(entry, ignored);
    }
  }
}

}  // namespace mpsd::models
