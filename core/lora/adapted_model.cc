// SPDX-License-Identifier: Apache-2.0
#include "core/lora/adapted_model.h"

#include <ATen/ATen.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/status_macros.h"
#include "core/lora/peft_folder.h"
#include "core/model/tied_head.h"
#include "core/model/weight_reader.h"
#include "core/spec/modules.h"
#include "nlohmann/json.hpp"

namespace mpsd::merge {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kPrefix[] = "base_model.model.";

std::string NameA(const std::string& module) {
  return absl::StrCat(kPrefix, module, ".lora_A.weight");
}
std::string NameB(const std::string& module) {
  return absl::StrCat(kPrefix, module, ".lora_B.weight");
}

// The labels in the run.json of the training run that made the adapter.
json RunClassLabels(const fs::path& adapter) {
  auto text = base::ReadFile(adapter.parent_path() / "run.json");
  if (!text.ok()) return json::object();
  const json run = base::ParseTree<json>(*text);
  if (!run.is_object() || !run.contains("labels")) return json::object();
  return run["labels"].is_object() ? run["labels"] : json::object();
}

}  // namespace

absl::StatusOr<AdaptedModel> AdaptedModel::Open(const fs::path& model,
                                                const fs::path& adapter) {
  AdaptedModel adapted;
  adapted.model_ = model;
  adapted.adapter_ = adapter;
  RETURN_IF_ERROR(adapted.ReadConfigs());
  ASSIGN_OR_RETURN(auto weights, tensorfile::Weights::Open(model));
  adapted.weights_ = std::move(weights);
  ASSIGN_OR_RETURN(auto file, tensorfile::SafetensorsFile::Open(
                                  adapter / "adapter_model.safetensors"));
  adapted.file_ = std::move(file);
  adapted.FindClassLabels();
  RETURN_IF_ERROR(adapted.FindHead());
  adapted.lora_ =
      spec::EffectiveLora(std::move(adapted.lora_), adapted.config_);
  ASSIGN_OR_RETURN(auto targets,
                   spec::MatchTargets(adapted.lora_, adapted.config_));
  adapted.targets_ = std::move(targets);
  absl::Status s = adapted.CheckTied();
  if (s.ok()) s = adapted.CheckComplete();
  if (!s.ok()) return s;
  return adapted;
}

absl::Status AdaptedModel::ReadConfigs() {
  ASSIGN_OR_RETURN(auto config, spec::ReadModelConfig(model_.string()));
  config_ = std::move(config);
  ASSIGN_OR_RETURN(auto lora, lora::ReadPeftConfig(adapter_));
  lora_ = std::move(lora);
  return absl::OkStatus();
}

// The task: decided by a head that the adapter saved, else by the model's
// architecture.
void AdaptedModel::FindClassLabels() {
  for (const char* head : {"score", "classifier", "classifier.out_proj"}) {
    const auto* saved = FindSaved(absl::StrCat(head, ".weight"));
    if (saved != nullptr) config_.num_labels = saved->shape[0];
  }
  for (const std::string& name : config_.architectures) {
    if (config_.num_labels > 0 || !name.ends_with("Classification")) continue;
    config_.num_labels = config_.head.num_labels.value_or(2);
  }
  if (config_.family == spec::Family::kVision) {
    task_ = spec::Task::kImageCls;
  } else if (config_.num_labels > 0) {
    task_ = spec::Task::kSeqCls;
  }
}

// Decides as the loading of the network does: the file's tensors say what is
// tied.
absl::Status AdaptedModel::FindHead() {
  if (!config_.tie_word_embeddings || config_.num_labels > 0) {
    return absl::OkStatus();
  }
  constexpr char kEmbedding[] = "model.embed_tokens.weight";
  const std::string stored =
      model::WeightReader({weights_.get()}, "model.", 0).StoredName(kEmbedding);
  const auto* entry = weights_->Find(stored);
  ASSIGN_OR_RETURN(
      const auto found,
      model::FindTiedHead(*weights_, stored,
                          entry == nullptr ? at::kFloat : entry->dtype));
  head_is_embedding_ = found == model::TiedHead::kHead;
  if (found == model::TiedHead::kBoth) config_.tie_word_embeddings = false;
  return absl::OkStatus();
}

// A tied head has no weight of its own: changing one of the two would break the
// tie.
absl::Status AdaptedModel::CheckTied() const {
  if (!config_.tie_word_embeddings || config_.num_labels > 0) {
    return absl::OkStatus();
  }
  bool touched = FindSaved("lm_head.weight") != nullptr ||
                 FindSaved("model.embed_tokens.weight") != nullptr;
  for (const auto& target : targets_) touched |= target.name == "lm_head";
  if (!touched) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(adapter_.string(),
                   ": changes lm_head or embed_tokens, which ", model_.string(),
                   " ties to each other (tie_word_embeddings); such an adapter "
                   "cannot be merged, load it with PEFT on top of the model"));
}

// Rejects an adapter with a tensor that has no place in the model.
absl::Status AdaptedModel::CheckComplete() const {
  std::set<std::string> unknown;
  for (const auto& [name, entry] : file_->entries()) unknown.insert(name);
  for (const auto& target : targets_) {
    unknown.erase(NameA(target.name));
    unknown.erase(NameB(target.name));
  }
  ASSIGN_OR_RETURN(auto saved, spec::MatchModulesToSave(lora_, config_));
  for (const spec::Module& m : saved) {
    unknown.erase(absl::StrCat(kPrefix, m.name, ".weight"));
    unknown.erase(absl::StrCat(kPrefix, m.name, ".bias"));
    unknown.erase(kPrefix + m.name);
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(adapter_.string(), ": ", *unknown.begin(),
                   " belongs to no adapted module of ", model_.string(),
                   "; is it another model's adapter?"));
}

absl::StatusOr<LowRank> AdaptedModel::WeightChange(
    const spec::TargetMatch& target) const {
  ASSIGN_OR_RETURN(auto a,
                   file_->Load(NameA(target.name), at::kCPU, at::kFloat));
  ASSIGN_OR_RETURN(auto b,
                   file_->Load(NameB(target.name), at::kCPU, at::kFloat));
  const std::vector<int64_t> a_shape = {target.r, target.in_features};
  const std::vector<int64_t> b_shape = {target.out_features, target.r};
  if (a.sizes() != at::IntArrayRef(a_shape) ||
      b.sizes() != at::IntArrayRef(b_shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(adapter_.string(), ": A and B of ", target.name,
                     " have shapes [", absl::StrJoin(a.sizes().vec(), ", "),
                     "] and [", absl::StrJoin(b.sizes().vec(), ", "),
                     "], this model needs [", absl::StrJoin(a_shape, ", "),
                     "] and [", absl::StrJoin(b_shape, ", "), "]"));
  }
  return LowRank{std::move(a), std::move(b), target.scaling};
}

const tensorfile::TensorEntry* AdaptedModel::FindSaved(
    const std::string& weight) const {
  const auto it = file_->entries().find(kPrefix + weight);
  return it == file_->entries().end() ? nullptr : &it->second;
}

absl::StatusOr<at::Tensor> AdaptedModel::LoadSaved(const std::string& weight,
                                                   at::ScalarType dtype) const {
  return file_->Load(kPrefix + weight, at::kCPU, dtype);
}

std::vector<std::string> AdaptedModel::LabelNames() const {
  std::vector<std::string> names;
  const json class_labels = RunClassLabels(adapter_);
  if (class_labels.contains("names") && class_labels["names"].is_array()) {
    for (const json& name : class_labels["names"]) {
      if (name.is_string()) names.push_back(name.get<std::string>());
    }
  }
  const auto count = static_cast<size_t>(config_.num_labels);
  if (names.size() == count) return names;
  if (config_.head.label_names.size() == count) {
    return config_.head.label_names;
  }
  names.clear();
  for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat("LABEL_", i));
  return names;
}

std::string AdaptedModel::ProblemType() const {
  const json class_labels = RunClassLabels(adapter_);
  const json problem = class_labels.value("problem_type", json());
  if (problem.is_string()) return problem.get<std::string>();
  if (!config_.head.problem_type.empty()) return config_.head.problem_type;
  return config_.num_labels == 1 ? "regression" : "single_label_classification";
}

}  // namespace mpsd::merge
