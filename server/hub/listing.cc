// SPDX-License-Identifier: Apache-2.0
#include "server/hub/listing.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/strings.h"
#include "core/spec/model_files.h"
#include "server/hub/hub_id.h"

namespace mpsd::hub {
namespace {

using Json = nlohmann::json;

constexpr char kWhole[] = "model.safetensors";

absl::Status NoHub() {
  return absl::FailedPreconditionError(
      "the answer is none of a hub: is mpsd's --hub right?");
}

std::string TextOf(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

int64_t SizeOf(const Json& object) {
  const auto it = object.find("size");
  return it != object.end() && it->is_number_unsigned() &&
                 it->get<uint64_t>() <= uint64_t{limits::kHubFileBytes}
             ? it->get<int64_t>()
             : -1;
}

bool IsWeights(std::string_view path) { return path.ends_with(".safetensors"); }

absl::StatusOr<HubFile> FileOf(const std::string& path, const Json& sibling) {
  const auto lfs = sibling.find("lfs");
  const bool large = lfs != sibling.end() && lfs->is_object();
  HubFile file;
  file.path = path;
  file.size = SizeOf(large ? *lfs : sibling);
  file.hash = large ? TextOf(*lfs, "sha256") : TextOf(sibling, "blobId");
  if (file.size < 0 || !(large ? IsSha256(file.hash) : IsCommit(file.hash))) {
    return absl::DataLossError(
        base::Cat("the hub tells no size or no hash of ", path));
  }
  return file;
}

// Whether the file is one that mpsd reads or hands on. Weights under other
// names (consolidated.safetensors …) hold the same numbers again.
bool IsNeeded(const std::string& path, bool whole) {
  if (!spec::IsModelFile(path)) return false;
  if (path == kIndex) return !whole;
  return !whole || !IsWeights(path) || path == kWhole;
}

absl::Status CheckWhole(const Listing& listing) {
  if (listing.Find(kConfig) == nullptr) {
    return absl::FailedPreconditionError(
        "the model has no config.json: it is none of Transformers'");
  }
  if (listing.Find(kConfig)->size >
      static_cast<int64_t>(limits::kModelFileBytes)) {
    return absl::FailedPreconditionError("config.json is too large to be one");
  }
  const bool weights =
      listing.Find(kWhole) != nullptr || listing.Find(kIndex) != nullptr;
  if (!weights) {
    return absl::FailedPreconditionError(
        "the model has no safetensors weights (model.safetensors, or shards "
        "with model.safetensors.index.json): choose a revision that has");
  }
  if (listing.files.size() > limits::kFilesOfModel) {
    return absl::FailedPreconditionError(
        base::Cat("the model has ", listing.files.size(), " files, at most ",
                  limits::kFilesOfModel, " are taken"));
  }
  return absl::OkStatus();
}

}  // namespace

const HubFile* Listing::Find(std::string_view path) const {
  const auto it =
      std::find_if(files.begin(), files.end(),
                   [&](const HubFile& file) { return file.path == path; });
  return it == files.end() ? nullptr : &*it;
}

int64_t Listing::TotalBytes() const {
  int64_t total = 0;
  for (const HubFile& file : files) total += file.size;
  return total;
}

absl::StatusOr<Listing> ParseListing(std::string_view json) {
  const Json answer = base::ParseTree<Json>(json);
  if (!answer.is_object()) return NoHub();
  Listing listing;
  listing.commit = TextOf(answer, "sha");
  const auto siblings = answer.find("siblings");
  if (!IsCommit(listing.commit) || siblings == answer.end() ||
      !siblings->is_array()) {
    return NoHub();
  }
  std::map<std::string, const Json*> by_path;
  for (const Json& sibling : *siblings) {
    if (!sibling.is_object()) return NoHub();
    const std::string path = TextOf(sibling, "rfilename");
    if (!by_path.emplace(path, &sibling).second) {
      return absl::DataLossError(
          base::Cat("the hub lists ", base::Quotable(path), " twice"));
    }
  }
  const bool whole = by_path.contains(kWhole);
  for (const auto& [path, sibling] : by_path) {
    if (!IsNeeded(path, whole)) continue;
    absl::StatusOr<HubFile> file = FileOf(path, *sibling);
    if (!file.ok()) return file.status();
    listing.files.push_back(*std::move(file));
  }
  if (absl::Status s = CheckWhole(listing); !s.ok()) return s;
  return listing;
}

absl::Status KeepShards(std::string_view index, Listing& listing) {
  const Json json = base::ParseTree<Json>(index);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) {
    return absl::FailedPreconditionError(
        base::Cat(kIndex, ": expected an object with weight_map"));
  }
  std::set<std::string> named;
  for (const auto& [name, shard] : map->items()) {
    const std::string path = shard.is_string() ? shard.get<std::string>() : "";
    const HubFile* file = listing.Find(path);
    if (file == nullptr || !IsWeights(path)) {
      return absl::FailedPreconditionError(
          base::Cat(kIndex, " names ", base::Quotable(path),
                    ", which is no safetensors file of the model"));
    }
    named.insert(path);
  }
  std::erase_if(listing.files, [&](const HubFile& file) {
    return IsWeights(file.path) && !named.contains(file.path);
  });
  return absl::OkStatus();
}

}  // namespace mpsd::hub
