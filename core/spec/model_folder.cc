// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "core/base/file.h"
#include "core/spec/cat.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

namespace fs = std::filesystem;

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

// The snapshot that refs/main names, else the newest; empty without one.
fs::path Snapshot(const fs::path& repository) {
  const auto main = base::ReadFile(repository / "refs" / "main");
  if (main.ok()) {
    const std::string hash(absl::StripAsciiWhitespace(*main));
    const fs::path snapshot = repository / "snapshots" / hash;
    if (!hash.empty() && HasConfig(snapshot)) return snapshot;
  }
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
        Cat("model: the folder ", model,
            " has no config.json; name a folder in Hugging Face layout"));
  }
  if (!LooksLikeId(model)) {
    return absl::NotFoundError(Cat("model: there is no folder ", model));
  }
  const fs::path repository =
      CacheFolder(environment) /
      Cat("models--", absl::StrReplaceAll(model, {{"/", "--"}}));
  const fs::path snapshot = Snapshot(repository);
  if (!snapshot.empty()) return snapshot.string();
  return absl::NotFoundError(
      Cat("model: neither a folder ", model,
          " nor a snapshot with config.json in ", repository.string(),
          "; fetch it with `hf download ", model, "`, or name a model folder"));
}

absl::StatusOr<std::string> FindModelFolder(const std::string& model) {
  return FindModelFolder(model,
                         [](const char* name) { return std::getenv(name); });
}

}  // namespace mpsd::spec
