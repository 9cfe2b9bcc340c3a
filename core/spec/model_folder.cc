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

// The snapshot that refs/main names, else the newest; empty without one.
fs::path Snapshot(const fs::path& repository) {
  fs::path main = SnapshotOfRef(repository, "main");
  if (!main.empty()) return main;
  fs::path newest;
  fs::file_time_type newest_time;
  std::error_code error;
  for (fs::directory_iterator it(repository / "snapshots", error), end;
       !error && it != end; it.increment(error)) {
    std::error_code time_error;
    const auto time = fs::last_write_time(it->path(), time_error);
    if (time_error || !HasConfig(it->path())) continue;
    if (newest.empty() || time > newest_time) {
      newest = it->path();
      newest_time = time;
    }
  }
  return newest;
}

const char* OfThisProcess(const char* name) { return std::getenv(name); }

absl::StatusOr<std::string> FindInCache(const std::string& model,
                                        const Environment& environment) {
  if (model.empty() || !LooksLikeId(model)) {
    return absl::NotFoundError(base::Cat("model: there is no folder ", model));
  }
  const fs::path repository = RepositoryOf(model, environment);
  const fs::path snapshot = Snapshot(repository);
  if (!snapshot.empty()) return snapshot.string();
  return absl::NotFoundError(base::Cat(
      "model: neither a folder ", model, " nor a snapshot with config.json in ",
      repository.string(), "; fetch it with `hf download ", model,
      "`, or name a model folder"));
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

absl::StatusOr<std::string> FindInHubCache(const std::string& id) {
  return FindInCache(id, OfThisProcess);
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
  return {name, RevisionOf(name, folder)};
}

absl::StatusOr<std::string> FindBaseModel(const BaseModel& base,
                                          const Environment& environment) {
  if (base.revision.empty() || HasConfig(base.name)) {
    return FindModelFolder(base.name, environment);
  }
  if (base.name.empty() || !LooksLikeId(base.name)) {
    return absl::NotFoundError(
        base::Cat("model: there is no folder ", base.name));
  }
  const fs::path repository = RepositoryOf(base.name, environment);
  const bool upwards = base.revision.find("..") != std::string::npos;
  const fs::path snapshot = repository / "snapshots" / base.revision;
  if (!upwards && HasConfig(snapshot)) return snapshot.string();
  const fs::path named =
      upwards ? fs::path() : SnapshotOfRef(repository, base.revision);
  if (!named.empty()) return named.string();
  return absl::NotFoundError(
      base::Cat("model: no snapshot ", base.revision, " with config.json in ",
                repository.string(), "; fetch it with `hf download ", base.name,
                " --revision ", base.revision, "`, or name a model folder"));
}

absl::StatusOr<std::string> FindBaseModel(const BaseModel& base) {
  return FindBaseModel(base, OfThisProcess);
}

}  // namespace mpsd::spec
