// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/weights.h"

#include <ATen/ATen.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace mpsd::tensorfile {
namespace fs = std::filesystem;
namespace {

// The shard names of an index, each once.
absl::StatusOr<std::set<std::string>> ReadIndex(const fs::path& path) {
  ASSIGN_OR_RETURN(auto text, base::ReadFile(path));
  const auto index = nlohmann::json::parse(text, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") ||
      !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": expected an object with weight_map"));
  }
  std::set<std::string> shards;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() ||
        fs::path(file.get<std::string>()).filename().string() !=
            file.get<std::string>()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path.string(), ": weight_map[\"", name, "\"] is not a file name"));
    }
    shards.insert(file.get<std::string>());
  }
  return shards;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Weights>> Weights::Open(const fs::path& folder) {
  std::unique_ptr<Weights> weights(new Weights);
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(single)) {
    RETURN_IF_ERROR(weights->AddFile(single));
    return weights;
  }
  if (!fs::exists(index)) {
    return absl::NotFoundError(absl::StrCat(
        folder.string(), ": has no model.safetensors and no ",
        "model.safetensors.index.json; if the model has only .bin files, ",
        "convert it once with Transformers' save_pretrained"));
  }
  ASSIGN_OR_RETURN(auto shards, ReadIndex(index));
  for (const std::string& shard : shards) {
    RETURN_IF_ERROR(weights->AddFile(folder / shard));
  }
  return weights;
}

absl::Status Weights::AddFile(const fs::path& path) {
  ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  for (const auto& [name, entry] : file->entries()) {
    by_name_[name] = file.get();
  }
  files_.push_back(std::move(file));
  paths_.push_back(path);
  return absl::OkStatus();
}

bool Weights::Contains(const std::string& name) const {
  return by_name_.contains(name);
}

const TensorEntry* Weights::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &it->second->entries().at(name);
}

absl::StatusOr<at::Tensor> Weights::Load(const std::string& name,
                                         at::IntArrayRef shape,
                                         at::Device device,
                                         at::ScalarType dtype) const {
  auto it = by_name_.find(name);
  if (it == by_name_.end()) {
    return absl::NotFoundError(
        absl::StrCat("the model has no weight \"", name, "\""));
  }
  const auto& stored = it->second->entries().at(name).shape;
  if (at::IntArrayRef(stored) != shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weight \"", name, "\" has shape [", absl::StrJoin(stored, ", "),
        "], config.json asks for [", absl::StrJoin(shape, ", "), "]"));
  }
  return it->second->Load(name, device, dtype);
}

bool Weights::SameBytes(const std::string& name,
                        const std::string& other) const {
  const TensorEntry* a = Find(name);
  const TensorEntry* b = Find(other);
  if (a == nullptr || b == nullptr || a->dtype_name != b->dtype_name ||
      a->shape != b->shape) {
    return false;
  }
  const SafetensorsFile& first = *by_name_.at(name);
  const SafetensorsFile& second = *by_name_.at(other);
  const bool same = first.Bytes(name) == second.Bytes(other);
  // The comparison read both tensors' pages from the files.
  first.DropBytes(name);
  second.DropBytes(other);
  return same;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : by_name_) names.push_back(name);
  return names;
}

}  // namespace mpsd::tensorfile
