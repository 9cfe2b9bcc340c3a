// SPDX-License-Identifier: Apache-2.0
#include "server/models/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/small_file.h"
#include "server/jobs/blob_store.h"
#include "server/models/model_name.h"

namespace mpsd::models {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr char kFile[] = "model.json";
constexpr size_t kMaxBytes = 64 << 10;

std::string Text(const json& tree, const char* name) {
  const auto value = tree.find(name);
  return value != tree.end() && value->is_string() ? value->get<std::string>()
                                                   : "";
}

int64_t Number(const json& tree, const char* name) {
  const auto value = tree.find(name);
  return value != tree.end() && value->is_number_integer()
             ? value->get<int64_t>()
             : 0;
}

}  // namespace

absl::StatusOr<Manifest> ReadManifest(const fs::path& folder) {
  const fs::path path = folder / kFile;
  const absl::StatusOr<std::string> text = base::ReadSmallFile(path, kMaxBytes);
  if (!text.ok()) return text.status();
  const json tree = base::ParseTree<json>(*text);
  Manifest manifest;
  if (tree.is_object()) {
    manifest.name = Text(tree, "name");
    manifest.owner = Text(tree, "owner");
    manifest.revision = Text(tree, "revision");
    manifest.size_bytes = Number(tree, "size_bytes");
    manifest.create_time = absl::FromUnixMicros(Number(tree, "create_time_us"));
  }
  // Names and revisions become paths.
  if (CheckModelName("name", manifest.name).ok() &&
      jobs::IsSha256(manifest.revision) && !manifest.owner.empty()) {
    return manifest;
  }
  return absl::DataLossError(
      absl::StrCat(path.string(),
                   ": cannot be read: push the model again under another "
                   "name, or remove its folder while mpsd does not run"));
}

absl::Status WriteManifest(const fs::path& folder, const Manifest& manifest) {
  const json tree = {
      {"name", manifest.name},
      {"owner", manifest.owner},
      {"revision", manifest.revision},
      {"size_bytes", manifest.size_bytes},
      {"create_time_us", absl::ToUnixMicros(manifest.create_time)}};
  return base::WriteFileAtomic(folder / kFile, tree.dump(1) + "\n");
}

absl::Status RemoveManifest(const fs::path& folder) {
  const fs::path path = folder / kFile;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return base::ErrnoStatus(errno, path.string());
  }
  return base::SyncPath(folder, O_RDONLY);
}

}  // namespace mpsd::models
