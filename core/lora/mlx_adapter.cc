// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/full/model_card.h"
#include "core/lora/merge.h"

namespace mpsd::merge {
namespace {

namespace fs = std::filesystem;

// The name of a module within its layer, or its whole name outside.
std::string KeyOf(const std::string& module) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!module.starts_with(kLayers)) return module;
  return module.substr(module.find('.', kLayers.size()) + 1);
}

at::Tensor Padded(const at::Tensor& matrix, int64_t rank) {
  return at::constant_pad_nd(matrix, {0, rank - matrix.size(1)});
}

absl::Status CheckForMlx(const AdaptedModel& adapted, const fs::path& adapter) {
  if (adapted.task() != spec::Task::kCausalLm) {
    return absl::UnimplementedError(absl::StrCat(
        adapter.string(), ": is a classifier's; mlx-lm runs language models"));
  }
  for (const spec::Module& module : spec::Modules(adapted.config())) {
    if (adapted.FindSaved(module.name + ".weight") == nullptr) continue;
    return absl::UnimplementedError(absl::StrCat(
        adapter.string(), ": replaces ", module.name,
        ", which mlx-lm's adapters cannot; export the merged model"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteMlxAdapter(const fs::path& model, const fs::path& adapter,
                             const fs::path& out) {
  at::NoGradGuard no_grad;
  ASSIGN_OR_RETURN(const auto adapted, AdaptedModel::Open(model, adapter));
  RETURN_IF_ERROR(CheckForMlx(adapted, adapter));
  int64_t rank = 0;
  for (const auto& target : adapted.targets()) rank = std::max(rank, target.r);
  const double scale = adapted.targets()[0].scaling;
  std::set<std::string> keys;
  tensorfile::NamedTensors tensors;
  for (const auto& target : adapted.targets()) {
    ASSIGN_OR_RETURN(const LowRank change, adapted.WeightChange(target));
    const at::Tensor b = change.b * (change.scaling / scale);
    keys.insert(KeyOf(target.name));
    tensors.emplace_back(target.name + ".lora_a",
                         Padded(change.a.t(), rank).contiguous());
    tensors.emplace_back(target.name + ".lora_b",
                         Padded(b, rank).t().contiguous());
  }
  const nlohmann::ordered_json config = {
      {"fine_tune_type", "lora"},
      {"num_layers", adapted.config().num_hidden_layers},
      {"lora_parameters",
       {{"rank", rank}, {"scale", scale}, {"dropout", 0.0}, {"keys", keys}}}};
  ASSIGN_OR_RETURN(auto staged, base::StagedFolder::Create(out));
  RETURN_IF_ERROR(tensorfile::WriteSafetensors(
      staged.staging() / "adapters.safetensors", tensors, {{"format", "mlx"}}));
  RETURN_IF_ERROR(base::WriteFileAtomic(
      staged.staging() / "adapter_config.json", config.dump(2) + "\n"));
  RETURN_IF_ERROR(full::ConvertCard(adapter, staged.staging(),
                                    full::CardLibrary::kMlx));
  return staged.Commit();
}

}  // namespace mpsd::merge
