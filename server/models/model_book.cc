// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_book.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/spec/model_folder.h"
#include "core/spec/train_spec.h"

namespace mpsd::models {

namespace fs = std::filesystem;
namespace {

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
  return absl::TimeFromTimespec(base::ModificationTime(info));
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
    model.size_bytes = FolderBytes(repository);
    model.create_time = ModificationTime(model.folder);
    models.push_back(std::move(model));
  }
  return models;
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

namespace {

using Uses = std::map<std::string, ModelUses::Use>;

void SetUse(const Uses& uses, ListedModel& model) {
  const auto use = uses.find(model.name);
  if (use != uses.end()) model.use = use->second;
}

// The first step removes the model's name, so that an interrupted removal
// leaves what SweepHubModels removes.
absl::Status RemoveRepository(const fs::path& repository) {
  const fs::path doomed = base::TemporaryBeside(repository);
  std::error_code error;
  fs::rename(repository, doomed, error);
  if (error) return base::ErrnoStatus(error.value(), repository.string());
  fs::remove_all(doomed, error);
  // The cache's own tools keep their locks next to it.
  std::error_code ignored;
  fs::remove_all(repository.parent_path() / ".locks" / repository.filename(),
                 ignored);
  return error ? base::ErrnoStatus(error.value(), doomed.string())
               : absl::OkStatus();
}

// The user whose pulls wrote most of a model; "" if there was none.
std::string OwnerOf(const PullLedger::Bytes& bytes) {
  const auto most = std::max_element(
      bytes.begin(), bytes.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : most->first;
}

}  // namespace

ModelFacts ModelBook::FactsAt(const fs::path& folder) {
  const absl::Time changed = ModificationTime(folder);
  {
    absl::MutexLock lock(&mutex_);
    const auto found = read_.find(folder);
    if (found != read_.end() && found->second.changed == changed) {
      return found->second.facts;
    }
  }
  ModelFacts facts = FactsOf(spec::ReadModelFolder(folder));
  // A file that comes within the clock's resolution would not be seen.
  if (absl::Now() - changed <= absl::Seconds(2)) return facts;
  absl::MutexLock lock(&mutex_);
  if (read_.size() >= limits::kListedModels) read_.erase(read_.begin());
  read_[folder] = {changed, facts};
  return facts;
}

ListedModel ModelBook::Listed(const Manifest& manifest, const fs::path& folder,
                              const jobs::MachineMemory& memory) {
  ListedModel model;
  static_cast<Manifest&>(model) = manifest;
  if (!model.facts) model.facts = FactsAt(folder);
  const int64_t limit = jobs::MemoryFor(memory, spec::TrainSpec().device);
  if (model.facts->least_memory_bytes > 0 && limit > 0) {
    model.fits = model.facts->least_memory_bytes <= limit;
  }
  return model;
}

absl::StatusOr<std::vector<ListedModel>> ModelBook::List(
    const std::string& name, const jobs::MachineMemory& memory) {
  ASSIGN_OR_RETURN(const Uses uses, uses_.All());
  std::vector<ListedModel> models;
  std::set<std::string> pushed_names;
  for (const PushedModels::Model& pushed : pushed_.List()) {
    if (models.size() == limits::kListedModels) break;
    if (!name.empty() && pushed.name != name) continue;
    models.push_back(Listed(pushed, pushed.folder, memory));
    SetUse(uses, models.back());
    pushed_names.insert(pushed.name);
  }
  std::map<std::string, PullLedger::Bytes> pulls;
  if (pulls_ != nullptr) {
    ASSIGN_OR_RETURN(auto all, pulls_->All());
    pulls = std::move(all);
  }
  for (const HubModel& pulled :
       ListHubModels(name, limits::kListedModels - models.size())) {
    models.push_back(Listed(pulled, pulled.folder, memory));
    models.back().pulled = true;
    models.back().owner = OwnerOf(pulls[pulled.name]);
    if (!pulled.is_main) {
      models.back().facts->problem = absl::StrCat(
          "no ref main: name it ", pulled.name, "@", pulled.revision);
    }
    if (!pushed_names.contains(pulled.name)) {
      SetUse(uses, models.back());
      continue;
    }
    models.back().facts->tasks.clear();
    models.back().facts->problem =
        "jobs get the pushed model of this name instead";
  }
  std::stable_sort(models.begin(), models.end(),
                   [](const ListedModel& a, const ListedModel& b) {
                     return a.name < b.name;
                   });
  return models;
}

absl::Status ModelBook::CheckMayPull(const std::string& name) {
  if (!pushed_.Find(name)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "id: jobs get the model ", name,
      " that was pushed to this mpsd, not the hub's: name the hub's by its "
      "revision (`mpsctl model pull ",
      name, "@main`), or remove the pushed one (`mpsctl model rm ", name,
      "`)"));
}

absl::StatusOr<ModelBook::Pushed> ModelBook::Push(
    const PushedModels::Request& request, jobs::Blobs& blobs,
    const jobs::MachineMemory& memory) {
  ASSIGN_OR_RETURN(PushedModels::Pushed pushed, pushed_.Push(request, blobs));
  // What cannot be swept now is removed the next time.
  SweepOne(request.name).IgnoreError();
  return Pushed{Listed(pushed.model, pushed.model.folder, memory),
                pushed.existed};
}

absl::StatusOr<int64_t> ModelBook::Remove(const std::string& name,
                                          const std::string& user,
                                          bool is_admin) {
  absl::StatusOr<int64_t> freed = pushed_.Remove(
      name, user, is_admin, [this] { return uses_.UnfinishedFolders(); });
  return absl::IsNotFound(freed.status()) ? RemovePulled(name, user, is_admin)
                                          : freed;
}

absl::StatusOr<int64_t> ModelBook::RemovePulled(const std::string& name,
                                                const std::string& user,
                                                bool is_admin) {
  // Also what a pull left that ended before its config.json came.
  const fs::path repository =
      fs::path(spec::HubCacheFolder()) / spec::RepositoryName(name);
  std::error_code error;
  if (!fs::is_directory(repository, error)) {
    return absl::NotFoundError(
        absl::StrCat("name: mpsd has no model ", name,
                     ": `mpsctl model list` shows those it has"));
  }
  const int64_t bytes = FolderBytes(repository);
  int64_t written = 0;  // by the user's pulls
  if (pulls_ != nullptr) {
    ASSIGN_OR_RETURN(auto pulled, pulls_->All());
    written = pulled[name][user];
  }
  if (!is_admin && (written == 0 || written < bytes)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the model ", name,
        " is in the Hugging Face cache, and not only your pulls wrote it: "
        "only an admin may remove it"));
  }
  if (puller_ != nullptr && puller_->IsPulling(name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model ", name,
                     " is being pulled: wait, or end the pull with `mpsctl "
                     "model pull --cancel ",
                     name, "`"));
  }
  ASSIGN_OR_RETURN(const std::set<std::string> folders,
                   uses_.UnfinishedFolders());
  const base::ReadRoots within({repository});
  const bool needed =
      std::any_of(folders.begin(), folders.end(),
                  [&](const auto& folder) { return within.Contain(folder); });
  if (needed) {
    return absl::FailedPreconditionError(
        absl::StrCat("a job that has not ended needs the model ", name,
                     ": `mpsctl list --model ", name,
                     "` shows which; cancel it, or wait for its end"));
  }
  RETURN_IF_ERROR(RemoveRepository(repository));
  if (pulls_ != nullptr) {
    RETURN_IF_ERROR(pulls_->Remove(name));
  }
  return bytes;
}

absl::StatusOr<int> ModelBook::SweepOne(const std::string& name) {
  return pushed_.Sweep(name, [&] { return uses_.FoldersOf(name); });
}

absl::StatusOr<int> ModelBook::Sweep() {
  int swept = 0;
  for (const std::string& name : pushed_.Superseded()) {
    ASSIGN_OR_RETURN(const int gone, SweepOne(name));
    swept += gone;
  }
  return swept;
}

}  // namespace mpsd::models
