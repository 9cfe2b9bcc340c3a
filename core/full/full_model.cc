// SPDX-License-Identifier: Apache-2.0
#include "core/full/full_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "core/ckpt/safetensors_writer.h"
#include "core/full/model_folder.h"
#include "core/spec/modules.h"

namespace mpsd::full {
namespace {

namespace fs = std::filesystem;
using model::NamedWeight;

constexpr char kWeights[] = "model.safetensors";

std::set<std::string> HeadModules(const spec::ModelConfig& config) {
  std::set<std::string> names;
  for (const spec::Module& m : spec::Modules(config)) {
    if (m.head) names.insert(m.name);
  }
  return names;
}

// The weights to train: all, or the head's and those that were missing from the
// model's file (BERT's pooler in some files).
std::vector<NamedWeight> Chosen(model::Network& network, bool head_only) {
  std::vector<NamedWeight> all = network.NamedWeights();
  if (!head_only) return all;
  std::set<std::string> modules = HeadModules(network.config());
  modules.insert(network.fresh_modules().begin(),
                 network.fresh_modules().end());
  std::erase_if(all, [&](const NamedWeight& w) {
    return !modules.contains(w.name.substr(0, w.name.rfind('.')));
  });
  return all;
}

// Names that share a tensor (a tied head) are listed together under the first.
using Shared = std::vector<std::vector<NamedWeight>>;

Shared BySharedTensor(const std::vector<NamedWeight>& weights) {
  Shared groups;
  std::map<const void*, size_t> index;
  for (const NamedWeight& weight : weights) {
    const auto [it, fresh] =
        index.emplace(weight.tensor->const_data_ptr(), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(weight);
  }
  return groups;
}

// The indices of the weights of which a layer takes a copy.
std::vector<size_t> Copied(const Shared& groups) {
  std::vector<size_t> copied;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (std::any_of(groups[i].begin(), groups[i].end(),
                    [](const NamedWeight& w) { return w.copy != nullptr; })) {
      copied.push_back(i);
    }
  }
  return copied;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FullModel>> FullModel::Attach(
    model::Network& network, Options options, at::Device device) {
  const spec::ModelConfig& config = network.config();
  const Shared groups = BySharedTensor(Chosen(network, options.head_only));
  std::vector<std::pair<std::string, at::Tensor>> initial;
  for (const auto& group : groups) {
    initial.emplace_back(spec::StoredName(config, group[0].name),
                         *group[0].tensor);
  }
  std::unique_ptr<FullModel> full(new FullModel(network, std::move(options)));
  full->parameters_ = std::make_unique<optim::ParameterSet>(initial, device);
  const bool copies = network.dtype() != at::kFloat;
  if (copies) full->parameters_->MakeCopies(network.dtype(), Copied(groups));
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const NamedWeight& weight : groups[i]) {
      *weight.tensor = full->parameters_->parameters()[i].value;
      if (copies && weight.copy) *weight.copy = full->parameters_->CopyOf(i);
    }
  }
  for (model::Linear* linear : network.Linears()) {
    linear->compute_in_input_dtype = true;
  }
  return full;
}

absl::Status FullModel::SaveCheckpoint(const fs::path& folder) const {
  tensorfile::NamedTensors tensors;
  for (const optim::Parameter& p : parameters_->parameters()) {
    tensors.emplace_back(p.name, p.value);
  }
  RETURN_IF_ERROR(tensorfile::WriteSafetensors(folder / kWeights, tensors));
  return WriteConfig(options_.model_folder, folder,
                     {network_.config(), options_.task, options_.label_names,
                      options_.problem_type, at::kFloat});
}

absl::Status FullModel::CheckCheckpoint(const fs::path& folder) const {
  ASSIGN_OR_RETURN(auto weights, tensorfile::Weights::Open(folder));
  for (const optim::Parameter& p : parameters_->parameters()) {
    const tensorfile::TensorEntry* entry = weights->Find(p.name);
    if (entry == nullptr || p.value.sizes() != at::IntArrayRef(entry->shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder.string(), ": ", p.name, " is ",
                       entry == nullptr ? "missing" : "of another shape"));
    }
  }
  return absl::OkStatus();
}

absl::Status FullModel::LoadCheckpoint(const fs::path& folder) {
  RETURN_IF_ERROR(CheckCheckpoint(folder));
  ASSIGN_OR_RETURN(auto weights, tensorfile::Weights::Open(folder));
  for (const optim::Parameter& p : parameters_->parameters()) {
    auto tensor = weights->Load(p.name, p.value.sizes(), at::kCPU, at::kFloat);
    if (!tensor.ok()) {
      return absl::Status(
          tensor.status().code(),
          absl::StrCat(folder.string(), ": ", tensor.status().message()));
    }
    p.value.detach().copy_(*tensor);
  }
  parameters_->RefreshCopies();
  return absl::OkStatus();
}

absl::Status FullModel::SaveResult(const fs::path& folder) const {
  const spec::ModelConfig& config = network_.config();
  const Shared groups = BySharedTensor(network_.NamedWeights());
  std::vector<tensorfile::PlannedTensor> plan;
  for (const auto& group : groups) {
    plan.push_back({spec::StoredName(config, group[0].name), network_.dtype(),
                    group[0].tensor->sizes().vec()});
  }
  ASSIGN_OR_RETURN(auto writer, tensorfile::SafetensorsWriter::Create(
                                    folder / kWeights, std::move(plan)));
  // The cast of one weight at a time: all of them would take half as much
  // memory again as the masters.
  for (const auto& group : groups) {
    RETURN_IF_ERROR(
        writer->Append(group[0].tensor->detach().to(network_.dtype())));
  }
  RETURN_IF_ERROR(writer->Finish());
  RETURN_IF_ERROR(WriteConfig(options_.model_folder, folder,
                              {config, options_.task, options_.label_names,
                               options_.problem_type, network_.dtype()}));
  RETURN_IF_ERROR(CopyTokenizer(options_.model_folder, folder));
  for (const auto& [name, contents] : options_.files) {
    if (fs::exists(folder / name)) continue;
    RETURN_IF_ERROR(base::WriteFileAtomic(folder / name, contents));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::full
