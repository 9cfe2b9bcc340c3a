// SPDX-License-Identifier: Apache-2.0
#include "core/lora/peft_folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/ckpt/safetensors.h"
#include "nlohmann/json.hpp"

namespace mpsd::lora {
namespace fs = std::filesystem;
namespace {

// Ordered, since PEFT uses the first of several patterns that match a module.
using json = nlohmann::ordered_json;

constexpr char kConfigName[] = "adapter_config.json";
constexpr char kWeightsName[] = "adapter_model.safetensors";
constexpr char kLabelsName[] = "labels.json";

bool IsOff(const json& value) {
  return value.is_null() || value == false || value == "none" ||
         ((value.is_object() || value.is_array()) && value.empty());
}

// Written as an integer if the value is one: PEFT's lora_alpha is an int.
json Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return static_cast<int64_t>(value);
  }
  return value;
}

// PEFT initialises an adapter before it reads the weights, and some values of
// init_lora_weights then change the base model's weights (tuners/lora/layer.py,
// update_layer).
absl::Status CheckInitialisation(const json& config,
                                 const std::string& origin) {
  const json init = config.value("init_lora_weights", json());
  if (init.is_null() || init.is_boolean()) return absl::OkStatus();
  const std::string word =
      init.is_string() ? absl::AsciiStrToLower(init.get<std::string>()) : "";
  if (word == "gaussian" || word == "eva" || word == "orthogonal") {
    return absl::OkStatus();
  }
  constexpr const char* kConverted[] = {"pissa", "olora", "corda", "lora_ga"};
  const bool convertible =
      std::any_of(std::begin(kConverted), std::end(kConverted),
                  [&](const char* known) { return word.starts_with(known); });
  return absl::UnimplementedError(absl::StrCat(
      origin, ": init_lora_weights is ", init.dump(), ": ",
      word == "mica" ? "its B is not to be trained"
                     : "its base weights differ from those in the model's file",
      "; ",
      convertible
          ? "write it as a plain adapter with PEFT's save_pretrained(…, "
            "path_initial_model_for_weight_conversion=…)"
          : "merge it into the model with PEFT's merge_and_unload, and start "
            "from that"));
}

absl::Status CheckSupported(const json& config, const std::string& origin) {
  if (config.contains("lora_parameters")) {
    return absl::UnimplementedError(absl::StrCat(
        origin,
        ": is an adapter of MLX (lora_parameters), mpsd reads those of "
        "PEFT; merge it into its model with mlx_lm.fuse, and start "
        "from that"));
  }
  if (config.value("peft_type", json()) != "LORA") {
    return absl::UnimplementedError(absl::StrCat(
        origin, ": peft_type is ", config.value("peft_type", json()).dump(),
        "; mpsd trains LORA adapters"));
  }
  for (const PeftField& field : PeftFields()) {
    if (field.use != PeftField::Use::kMustBeOff ||
        IsOff(config.value(field.name, json()))) {
      continue;
    }
    return absl::UnimplementedError(absl::StrCat(
        origin, ": ", field.name, " is ", config[field.name].dump(),
        std::string_view(field.name) == "exclude_modules"
            ? "; name the modules that remain in target_modules instead"
            : "; mpsd has no such setting, remove it or retrain"));
  }
  for (const auto& [name, value] : config.items()) {
    const auto is_name = [&name = name](const PeftField& field) {
      return field.name == name;
    };
    if (std::any_of(PeftFields().begin(), PeftFields().end(), is_name) ||
        IsOff(value)) {
      continue;
    }
    return absl::UnimplementedError(absl::StrCat(
        origin, ": ", name, " is ", value.dump(),
        "; LoraConfig of PEFT 0.21 has no such field: remove it if the adapter "
        "computes the same without it, or retrain"));
  }
  return CheckInitialisation(config, origin);
}

}  // namespace

// peft 0.21, tuners/lora/config.py.
const std::vector<PeftField>& PeftFields() {
  using Use = PeftField::Use;
  static const auto& fields = *new std::vector<PeftField>{
      {"peft_type", Use::kRead},
      {"r", Use::kRead},
      {"lora_alpha", Use::kRead},
      {"lora_dropout", Use::kRead},
      {"use_rslora", Use::kRead},
      {"target_modules", Use::kRead},
      {"layers_to_transform", Use::kRead},
      {"rank_pattern", Use::kRead},
      {"alpha_pattern", Use::kRead},
      {"modules_to_save", Use::kRead},
      {"init_lora_weights", Use::kRead},
      {"task_type", Use::kNothing},
      {"auto_mapping", Use::kNothing},
      {"peft_version", Use::kNothing},
      {"base_model_name_or_path", Use::kNothing},
      {"revision", Use::kNothing},
      {"inference_mode", Use::kNothing},
      {"runtime_config", Use::kNothing},
      {"megatron_config", Use::kNothing},
      {"megatron_core", Use::kNothing},
      {"qalora_group_size", Use::kNothing},  // used with use_qalora
      {"loftq_config", Use::kNothing},       // used only with init_lora_weights
      {"eva_config", Use::kNothing},
      {"corda_config", Use::kNothing},
      {"lora_ga_config", Use::kNothing},
      {"alora_invocation_tokens", Use::kMustBeOff},
      {"arrow_config", Use::kMustBeOff},
      {"bias", Use::kMustBeOff},
      {"ensure_weight_tying", Use::kMustBeOff},
      {"exclude_modules", Use::kMustBeOff},
      {"fan_in_fan_out", Use::kMustBeOff},
      {"kasa_config", Use::kMustBeOff},
      {"layer_replication", Use::kMustBeOff},
      {"layers_pattern", Use::kMustBeOff},
      {"lora_bias", Use::kMustBeOff},
      {"monteclora_config", Use::kMustBeOff},
      {"target_parameters", Use::kMustBeOff},
      {"trainable_token_indices", Use::kMustBeOff},
      {"use_bdlora", Use::kMustBeOff},
      {"use_dora", Use::kMustBeOff},
      {"use_qalora", Use::kMustBeOff},
      {"velora_config", Use::kMustBeOff},
  };
  return fields;
}

absl::StatusOr<spec::LoraSpec> ReadPeftConfig(const fs::path& folder) {
  const std::string origin = (folder / kConfigName).string();
  ASSIGN_OR_RETURN(auto text, base::ReadFile(origin));
  const json config = base::ParseTree<json>(text);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": expected a JSON object"));
  }
  RETURN_IF_ERROR(CheckSupported(config, origin));
  ASSIGN_OR_RETURN(auto spec, spec::ParseLora(text, origin));
  if (!spec.lora_dropout) spec.lora_dropout = 0;
  return spec;
}

namespace {

absl::Status CheckEntries(const tensorfile::SafetensorsFile& file,
                          const std::string& origin,
                          const optim::ParameterSet& parameters,
                          const FrozenWeights& frozen) {
  std::set<std::string> unknown;
  for (const auto& [name, entry] : file.entries()) unknown.insert(name);
  for (const auto& [module, weight] : frozen) {
    RETURN_IF_ERROR(CheckBaseLayer(file, origin, module, weight));
    unknown.erase(NameOfBaseLayer(module));
  }
  for (const optim::Parameter& p : parameters.parameters()) {
    const auto entry = file.entries().find(p.name);
    if (entry == file.entries().end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          origin, ": has no tensor ", p.name,
          absl::StrContains(p.name, ".lora_")
              ? ""
              : "; it was saved without this module, which the job trains "
                "whole: save it again with the module in modules_to_save "
                "(PEFT adds a classifier's head if task_type is SEQ_CLS)"));
    }
    const std::vector<int64_t>& shape = entry->second.shape;
    if (p.value.sizes() != at::IntArrayRef(shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ": ", p.name, " has shape [",
                       absl::StrJoin(shape, ", "), "], this model needs [",
                       absl::StrJoin(p.value.sizes().vec(), ", "), "]"));
    }
    unknown.erase(p.name);
  }
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, ": ", *unknown.begin(),
        " belongs to no adapted module of this model; is it another model's ",
        "adapter?"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBaseLayer(const tensorfile::SafetensorsFile& file,
                            const std::string& origin,
                            const std::string& module,
                            const at::Tensor& weight) {
  const std::string name = NameOfBaseLayer(module);
  if (!file.entries().contains(name)) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto saved, file.Load(name));
  const at::Tensor own = weight.to(at::kCPU);
  // PEFT may have loaded the model in another dtype.
  if (own.sizes() == saved.sizes() &&
      (at::equal(saved.to(own.scalar_type()), own) ||
       at::equal(own.to(saved.scalar_type()), saved))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(origin, ": ", name,
                   " differs from the model's own weight: the adapter was "
                   "trained on another model, or on one whose vocabulary was "
                   "resized; save that model, and start from it"));
}

absl::Status CheckPeftWeights(const fs::path& folder,
                              const optim::ParameterSet& parameters,
                              const FrozenWeights& frozen) {
  const fs::path path = folder / kWeightsName;
  ASSIGN_OR_RETURN(auto file, tensorfile::SafetensorsFile::Open(path));
  return CheckEntries(*file, path.string(), parameters, frozen);
}

absl::Status LoadPeftWeights(const fs::path& folder,
                             optim::ParameterSet& parameters,
                             const FrozenWeights& frozen) {
  const fs::path path = folder / kWeightsName;
  ASSIGN_OR_RETURN(auto file, tensorfile::SafetensorsFile::Open(path));
  // All names and shapes are checked before the first value is written: an
  // adapter of another model leaves the parameters unchanged.
  RETURN_IF_ERROR(CheckEntries(*file, path.string(), parameters, frozen));
  for (const optim::Parameter& p : parameters.parameters()) {
    ASSIGN_OR_RETURN(auto tensor, file->Load(p.name, at::kCPU, at::kFloat));
    // Into the parameter's own memory, which the optimizer's group holds;
    // detached, since autograd forbids writing into a leaf.
    p.value.detach().copy_(tensor);
  }
  return absl::OkStatus();
}

namespace {

json ConfigOf(const spec::LoraSpec& spec, const PeftIdentity& identity) {
  json targets;
  if (auto* list =
          std::get_if<std::vector<std::string>>(&spec.target_modules)) {
    targets = *list;
  } else if (auto* regex = std::get_if<std::string>(&spec.target_modules)) {
    targets = *regex;
  } else if (std::holds_alternative<spec::LoraSpec::AllLinear>(
                 spec.target_modules)) {
    targets = "all-linear";
  }
  json alpha_pattern = json::object(), rank_pattern = json::object();
  for (const auto& [key, value] : spec.alpha_pattern) {
    alpha_pattern[key] = Number(value);
  }
  for (const auto& [key, value] : spec.rank_pattern) rank_pattern[key] = value;
  json config = {
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", identity.base_model},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", nullptr},
      {"layers_to_transform", nullptr},
      {"lora_alpha", Number(spec.lora_alpha)},
      {"lora_dropout", spec.lora_dropout.value_or(0)},
      {"modules_to_save", nullptr},
      {"peft_type", "LORA"},
      {"r", spec.r},
      {"rank_pattern", rank_pattern},
      {"alpha_pattern", alpha_pattern},
      {"revision", nullptr},
      {"target_modules", targets},
      {"task_type", nullptr},
      {"use_dora", false},
      {"use_rslora", spec.use_rslora},
  };
  if (!identity.revision.empty()) config["revision"] = identity.revision;
  if (!identity.task_type.empty()) config["task_type"] = identity.task_type;
  if (spec.layers_to_transform) {
    config["layers_to_transform"] = *spec.layers_to_transform;
  }
  if (!spec.modules_to_save.empty()) {
    config["modules_to_save"] = spec.modules_to_save;
  }
  return config;
}

}  // namespace

absl::Status SavePeftFolder(const fs::path& folder, const spec::LoraSpec& spec,
                            const PeftIdentity& identity,
                            const optim::ParameterSet& parameters) {
  tensorfile::NamedTensors tensors;
  for (const optim::Parameter& p : parameters.parameters()) {
    tensors.emplace_back(p.name, p.value);
  }
  // By name, as safetensors' own writer sorts tensors of one dtype: equal
  // adapters give equal bytes.
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  // The config comes last: a folder with a config has complete weights.
  RETURN_IF_ERROR(tensorfile::WriteSafetensors(folder / kWeightsName, tensors));
  if (identity.labels) RETURN_IF_ERROR(SaveLabels(folder, *identity.labels));
  return base::WriteFileAtomic(folder / kConfigName,
                               ConfigOf(spec, identity).dump(2) + "\n");
}

absl::Status SaveLabels(const fs::path& folder, const AdapterLabels& labels) {
  const json file = {{"problem_type", labels.problem_type},
                     {"names", labels.names}};
  return base::WriteFileAtomic(
      folder / kLabelsName,
      file.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

namespace {

// Throws json::exception for another form.
AdapterLabels LabelsIn(const json& object) {
  return {object.at("problem_type"), object.at("names")};
}

// Not an error: run.json is not part of the adapter.
std::optional<AdapterLabels> LabelsOfRun(const fs::path& adapter) {
  std::error_code error;
  fs::path run = fs::canonical(adapter, error).parent_path();
  if (error) return std::nullopt;
  if (run.filename() == "checkpoints") run = run.parent_path();
  const auto text = base::ReadFile(run / "run.json");
  if (!text.ok()) return std::nullopt;
  try {
    return LabelsIn(base::ParseTree<json>(*text).at("labels"));
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<std::optional<AdapterLabels>> ReadLabels(
    const fs::path& folder) {
  const std::string origin = (folder / kLabelsName).string();
  auto text = base::ReadFile(origin);
  if (absl::IsNotFound(text.status())) return LabelsOfRun(folder);
  if (!text.ok()) return text.status();
  const json file = base::ParseTree<json>(*text);
  try {
    return LabelsIn(file);
  } catch (const json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin,
        ": expected {\"problem_type\": \"…\", \"names\": [\"…\"]}, as "
        "written with the adapter; copy the file again"));
  }
}

}  // namespace mpsd::lora
