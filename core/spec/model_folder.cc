// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "core/base/limits.h"
#include "core/base/small_file.h"
#include "core/base/strings.h"
#include "core/spec/hub_cache.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

namespace fs = std::filesystem;

constexpr char kRepository[] = "models--";
constexpr char kPushed[] = "pushed";
constexpr char kMain[] = "main";

bool HasConfig(const fs::path& dir) {
  std::error_code error;
  return fs::is_regular_file(dir / "config.json", error);
}

fs::path CacheFolder(const Environment& environment) {
  const auto value = [&](const char* name) -> fs::path {
    const char* text = environment(name);
    return text == nullptr ? "" : text;
  };
  if (fs::path cache = value("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (fs::path home = value("HF_HOME"); !home.empty()) return home / "hub";
  if (fs::path xdg = value("XDG_CACHE_HOME"); !xdg.empty()) {
    return xdg / "huggingface" / "hub";
  }
  return value("HOME") / ".cache" / "huggingface" / "hub";
}

// Hugging Face ids: "name" or "owner/name".
bool LooksLikeId(const std::string& model) {
  int slashes = 0;
  for (char c : model) {
    if (c == '/') ++slashes;
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.' &&
        c != '/') {
      return false;
    }
  }
  return slashes <= 1 && absl::ascii_isalnum(model.front()) &&
         model.back() != '/';
}

fs::path RepositoryOf(const std::string& id, const Environment& environment) {
  return CacheFolder(environment) / RepositoryName(id);
}

// The snapshot that refs/NAME names; empty without such a ref.
fs::path SnapshotOfRef(const fs::path& repository, const std::string& name) {
  const auto ref =
      base::ReadSmallFile(repository / "refs" / name, limits::kPathBytes);
  if (!ref.ok()) return {};
  const std::string hash(absl::StripAsciiWhitespace(*ref));
  const fs::path snapshot = repository / "snapshots" / hash;
  return !hash.empty() && HasConfig(snapshot) ? snapshot : fs::path();
}

const char* OfThisProcess(const char* name) { return std::getenv(name); }

// The snapshot of `id` at a commit or at the ref of that name, and no other.
absl::StatusOr<std::string> FindSnapshot(const std::string& id,
                                         const std::string& revision,
                                         const Environment& environment) {
  if (id.empty() || !LooksLikeId(id)) {
    return absl::NotFoundError(base::Cat("model: there is no folder ", id));
  }
  const fs::path repository = RepositoryOf(id, environment);
  // Neither may lead out of the repository.
  if (!revision.empty() && revision.find("..") == std::string::npos) {
    const fs::path snapshot = repository / "snapshots" / revision;
    if (HasConfig(snapshot)) return snapshot.string();
    const fs::path named = SnapshotOfRef(repository, revision);
    if (!named.empty()) return named.string();
  }
  const bool is_main = revision == kMain;
  return absl::NotFoundError(base::Cat(
      "model: neither a folder ", id, " nor a snapshot with config.json of ",
      is_main ? "the ref main" : revision, " in ", repository.string(),
      "; fetch it with `hf download ", id,
      is_main ? "" : base::Cat(" --revision ", revision),
      "`, or name a model folder"));
}

absl::StatusOr<std::string> FindInCache(const std::string& model,
                                        const Environment& environment) {
  const HubName name = ParseHubName(model);
  return FindSnapshot(name.id, name.revision, environment);
}

}  // namespace

absl::StatusOr<std::string> FindModelFolder(const std::string& model,
                                            const Environment& environment) {
  if (model.empty()) {
    return absl::InvalidArgumentError("model: the name is empty");
  }
  if (HasConfig(model)) return model;
  std::error_code error;
  if (fs::is_directory(model, error)) {
    return absl::NotFoundError(
        base::Cat("model: the folder ", model,
                  " has no config.json; name a folder in Hugging Face layout"));
  }
  return FindInCache(model, environment);
}

absl::StatusOr<std::string> FindModelFolder(const std::string& model) {
  return FindModelFolder(model, OfThisProcess);
}

std::string HubCacheFolder() { return CacheFolder(OfThisProcess).string(); }

HubName ParseHubName(const std::string& model) {
  const size_t at = model.find('@');
  if (at == std::string::npos) return {model, kMain};
  return {model.substr(0, at), model.substr(at + 1)};
}

absl::StatusOr<std::string> FindInHubCache(const std::string& model) {
  return FindInCache(model, OfThisProcess);
}

std::string RepositoryName(const std::string& id) {
  return base::Cat(kRepository, absl::StrReplaceAll(id, {{"/", "--"}}));
}

std::string IdOfRepository(const std::string& folder_name) {
  if (!folder_name.starts_with(kRepository)) return "";
  std::string id = folder_name.substr(sizeof(kRepository) - 1);
  const size_t slash = id.find("--");
  if (slash != std::string::npos) {
    id = base::Cat(id.substr(0, slash), "/", id.substr(slash + 2));
  }
  return id.empty() || !LooksLikeId(id) ? "" : id;
}

std::string PushedFolder(const std::string& models_dir, const std::string& id,
                         const std::string& revision) {
  return fs::path(models_dir) / RepositoryName(id) / kPushed / revision;
}

bool Names(const std::string& id, const std::string& folder) {
  if (!RevisionOf(id, folder).empty()) return true;
  const fs::path pushed = fs::path(folder).parent_path();
  return !id.empty() && LooksLikeId(id) && pushed.filename() == kPushed &&
         pushed.parent_path().filename() == RepositoryName(id);
}

std::string RevisionOf(const std::string& id, const std::string& folder) {
  const fs::path path(folder);
  const fs::path snapshots = path.parent_path();
  if (id.empty() || !LooksLikeId(id) || snapshots.filename() != "snapshots" ||
      snapshots.parent_path().filename() != RepositoryName(id)) {
    return "";
  }
  return path.filename().string();
}

BaseModel BaseModelOf(const TrainSpec& spec, const std::string& folder) {
  const std::string& name = spec.model_id.empty() ? spec.model : spec.model_id;
  const std::string id = ParseHubName(name).id;
  const std::string revision = RevisionOf(id, folder);
  return {revision.empty() ? name : id, revision};
}

absl::StatusOr<std::string> FindBaseModel(const BaseModel& base,
                                          const Environment& environment) {
  if (base.revision.empty() || HasConfig(base.name)) {
    return FindModelFolder(base.name, environment);
  }
  return FindSnapshot(base.name, base.revision, environment);
}

absl::StatusOr<std::string> FindBaseModel(const BaseModel& base) {
  return FindBaseModel(base, OfThisProcess);
}

}  // namespace mpsd::spec
