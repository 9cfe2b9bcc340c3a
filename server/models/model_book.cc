// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_book.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/read_roots.h"
#include "server/models/hub_models.h"

namespace mpsd::models {
namespace {

using Uses = std::map<std::string, ModelUses::Use>;

void SetUse(const Uses& uses, ListedModel& model) {
  const auto use = uses.find(model.name);
  if (use != uses.end()) model.use = use->second;
}

ListedModel Listed(const PushedModels::Model& pushed,
                   const jobs::MachineMemory& memory) {
  ListedModel model;
  model.name = pushed.name;
  model.revision = pushed.revision;
  model.owner = pushed.owner;
  model.size_bytes = pushed.size_bytes;
  model.create_time = pushed.create_time;
  model.facts = FactsOf(pushed.folder, memory);
  return model;
}

ListedModel Listed(const HubModel& pulled, const jobs::MachineMemory& memory) {
  ListedModel model;
  model.name = pulled.name;
  model.revision = pulled.revision;
  model.pulled = true;
  model.size_bytes = pulled.size_bytes;
  model.create_time = pulled.create_time;
  model.facts = FactsOf(pulled.folder, memory);
  return model;
}

// Whose pulls wrote most of a model; "" where there was none.
std::string OwnerOf(const PullLedger::Bytes& bytes) {
  const auto most = std::max_element(
      bytes.begin(), bytes.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : most->first;
}

absl::Status NoSuchModel(const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("name: mpsd has no model ", name,
                   ": `mpsctl model list` shows those it has"));
}

}  // namespace

absl::StatusOr<std::vector<ListedModel>> ModelBook::List(
    const std::string& name, const jobs::MachineMemory& memory) {
  const absl::StatusOr<Uses> uses = uses_.All();
  if (!uses.ok()) return uses.status();
  std::vector<ListedModel> models;
  std::set<std::string> pushed_names;
  for (const PushedModels::Model& pushed : pushed_.List()) {
    if (models.size() == limits::kListedModels) break;
    if (!name.empty() && pushed.name != name) continue;
    models.push_back(Listed(pushed, memory));
    SetUse(*uses, models.back());
    pushed_names.insert(pushed.name);
  }
  std::map<std::string, PullLedger::Bytes> pulls;
  if (pulls_ != nullptr) {
    auto all = pulls_->All();
    if (!all.ok()) return all.status();
    pulls = *std::move(all);
  }
  for (const HubModel& pulled :
       ListHubModels(name, limits::kListedModels - models.size())) {
    models.push_back(Listed(pulled, memory));
    models.back().owner = OwnerOf(pulls[pulled.name]);
    if (!pulled.is_main) {
      models.back().facts.problem = absl::StrCat(
          "no ref main: name it ", pulled.name, "@", pulled.revision);
    }
    if (!pushed_names.contains(pulled.name)) {
      SetUse(*uses, models.back());
      continue;
    }
    models.back().facts.tasks.clear();
    models.back().facts.problem =
        "jobs get the pushed model of this name instead";
  }
  std::stable_sort(models.begin(), models.end(),
                   [](const ListedModel& a, const ListedModel& b) {
                     return a.name < b.name;
                   });
  return models;
}

absl::StatusOr<ModelBook::Pushed> ModelBook::Push(
    const PushedModels::Request& request, jobs::BlobStore& blobs,
    const jobs::MachineMemory& memory) {
  absl::StatusOr<PushedModels::Pushed> pushed = pushed_.Push(request, blobs);
  if (!pushed.ok()) return pushed.status();
  // What cannot be swept now goes the next time.
  SweepOne(request.name).IgnoreError();
  return Pushed{Listed(pushed->model, memory), pushed->existed};
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
  const std::vector<HubModel> found = ListHubModels(name, 1);
  if (found.empty()) return NoSuchModel(name);
  int64_t written = 0;  // by the user's pulls
  if (pulls_ != nullptr) {
    auto all = pulls_->All();
    if (!all.ok()) return all.status();
    written = (*all)[name][user];
  }
  if (!is_admin && (written == 0 || written < found.front().size_bytes)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the model ", name,
        " is of the Hugging Face cache, and not your pulls alone wrote it: "
        "ModelService.RemoveModel needs the role admin for it; ask an admin"));
  }
  if (puller_ != nullptr && puller_->IsPulling(name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model ", name,
                     " is being pulled: wait, or end the pull with `mpsctl "
                     "model pull --cancel ",
                     name, "`"));
  }
  const absl::StatusOr<std::set<std::string>> folders =
      uses_.UnfinishedFolders();
  if (!folders.ok()) return folders.status();
  const base::ReadRoots repository({found.front().repository});
  const bool needed = std::any_of(
      folders->begin(), folders->end(),
      [&](const auto& folder) { return repository.Contain(folder); });
  if (needed) {
    return absl::FailedPreconditionError(
        absl::StrCat("a job that has not ended needs the model ", name,
                     ": `mpsctl list --model ", name,
                     "` shows which; cancel it, or wait for its end"));
  }
  const absl::StatusOr<int64_t> freed = RemoveHubModel(found.front());
  if (!freed.ok() || pulls_ == nullptr) return freed;
  const absl::Status forgotten = pulls_->Remove(name);
  if (!forgotten.ok()) return forgotten;
  return freed;
}

absl::StatusOr<int> ModelBook::SweepOne(const std::string& name) {
  return pushed_.Sweep(name, [&] { return uses_.FoldersOf(name); });
}

absl::StatusOr<int> ModelBook::Sweep() {
  int swept = 0;
  for (const std::string& name : pushed_.Superseded()) {
    const absl::StatusOr<int> gone = SweepOne(name);
    if (!gone.ok()) return gone.status();
    swept += *gone;
  }
  return swept;
}

}  // namespace mpsd::models
