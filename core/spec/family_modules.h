// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_FAMILY_MODULES_H_
#define MPSD_CORE_SPEC_FAMILY_MODULES_H_

#include <string>
#include <vector>

#include "core/spec/model_config.h"
#include "core/spec/modules.h"

// The parts of modules.h that are specific to one family.
namespace mpsd::spec {

// BERT, RoBERTa, DistilBERT (transformers 5.23, models/*/modeling_*.py).
std::vector<Module> EncoderModules(const ModelConfig& config);

// ViT.
std::vector<Module> VisionModules(const ModelConfig& config);
std::string StoredVisionName(const std::string& name);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_FAMILY_MODULES_H_
