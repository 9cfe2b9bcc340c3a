// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_LORA_PEFT_FOLDER_H_
#define MPSD_CORE_LORA_PEFT_FOLDER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/lora/lora.h"
#include "core/optim/parameters.h"
#include "core/spec/train_spec.h"

// A PEFT folder: adapter_config.json beside adapter_model.safetensors, as
// PeftModel.save_pretrained writes and from_pretrained reads it (peft 0.21).
namespace mpsd::lora {

// A field of PEFT's LoraConfig and what ReadPeftConfig makes of it.
struct PeftField {
  enum class Use {
    kRead,
    // Of other programs, or of the moment in which PEFT made the adapter:
    // whatever it says, the adapter computes the same.
    kNothing,
    // Changes the arithmetic in ways mpsd does not compute: must be off, which
    // null, false, empty and "none" mean.
    kMustBeOff,
  };
  const char* name;
  Use use;
};

// Every field that there is.
const std::vector<PeftField>& PeftFields();

// The LoRA part of adapter_config.json. Unimplemented for a setting mpsd cannot
// honour (another peft_type, DoRA, bias, an initialisation with which PEFT
// changes the base model), naming it; InvalidArgument for a broken file.
absl::StatusOr<spec::LoraSpec> ReadPeftConfig(
    const std::filesystem::path& folder);

// Whether the folder's tensors are those of `parameters`: InvalidArgument where
// one is missing, unknown or of another shape, naming it.
absl::Status CheckPeftWeights(const std::filesystem::path& folder,
                              const optim::ParameterSet& parameters);

// Copies the folder's tensors into `parameters`, once CheckPeftWeights takes
// them.
absl::Status LoadPeftWeights(const std::filesystem::path& folder,
                             optim::ParameterSet& parameters);

// Writes both files into `folder`, which must exist.
absl::Status SavePeftFolder(const std::filesystem::path& folder,
                            const spec::LoraSpec& spec,
                            const PeftIdentity& identity,
                            const optim::ParameterSet& parameters);

}  // namespace mpsd::lora

#endif  // MPSD_CORE_LORA_PEFT_FOLDER_H_
