// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ckpt/safetensors.h"
#include "core/lora/lora.h"
#include "core/optim/parameters.h"
#include "core/spec/train_spec.h"

// A PEFT folder: adapter_config.json and adapter_model.safetensors, as
// PeftModel.save_pretrained writes and from_pretrained reads them (peft 0.21).
namespace mpsd::lora {

// A field of PEFT's LoraConfig and how ReadPeftConfig treats it.
struct PeftField {
  enum class Use {
    kRead,
    // Used by other programs, or only when PEFT makes an adapter: the adapter
    // computes the same with any value.
    kNothing,
    // Changes the arithmetic in ways that mpsd does not support: must be off,
    // that is, null, false, empty or "none".
    kMustBeOff,
  };
  const char* name;
  Use use;
};

// Every field of PEFT's LoraConfig.
const std::vector<PeftField>& PeftFields();

// The LoRA part of adapter_config.json. Unimplemented for a setting that mpsd
// does not support (another peft_type, DoRA, bias, an initialisation with which
// PEFT changes the base model, a field that PeftFields lacks), naming it;
// InvalidArgument for a broken file or a value that job.json rejects.
absl::StatusOr<spec::LoraSpec> ReadPeftConfig(
    const std::filesystem::path& folder);

// A module's frozen weight, which PEFT saves next to A and B if the module is
// an adapted lm_head (save_pretrained's save_embedding_layers "auto").
std::string NameOfBaseLayer(const std::string& module);

// InvalidArgument if `file` has the frozen weight of `module` and it is not the
// model's own, `weight`, up to the rounding of one of their dtypes.
absl::Status CheckBaseLayer(const tensorfile::SafetensorsFile& file,
                            const std::string& origin,
                            const std::string& module,
                            const at::Tensor& weight);

// The frozen weights of adapted modules, by module.
using FrozenWeights = std::map<std::string, at::Tensor>;

// Whether the folder's tensors match `parameters`: InvalidArgument names a
// tensor that is missing, unknown or of another shape, or CheckBaseLayer's.
absl::Status CheckPeftWeights(const std::filesystem::path& folder,
                              const optim::ParameterSet& parameters,
                              const FrozenWeights& frozen = {});

// Copies the folder's tensors into `parameters`, if CheckPeftWeights accepts
// them.
absl::Status LoadPeftWeights(const std::filesystem::path& folder,
                             optim::ParameterSet& parameters,
                             const FrozenWeights& frozen = {});

// Writes labels.json.
absl::Status SaveLabels(const std::filesystem::path& folder,
                        const AdapterLabels& labels);
// Without the file the labels in run.json of the run that the folder is a
// result or a checkpoint of, since earlier releases wrote no labels.json;
// absent without both. InvalidArgument names a broken labels.json.
absl::StatusOr<std::optional<AdapterLabels>> ReadLabels(
    const std::filesystem::path& folder);

// Writes both files, and labels.json if `identity` has labels, into `folder`,
// which must exist.
absl::Status SavePeftFolder(const std::filesystem::path& folder,
                            const spec::LoraSpec& spec,
                            const PeftIdentity& identity,
                            const optim::ParameterSet& parameters);

}  // namespace mpsd::lora
