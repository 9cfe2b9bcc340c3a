// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_ENCODER_CONFIG_H_
#define MPSD_CORE_SPEC_ENCODER_CONFIG_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/limits.h"
#include "core/spec/fields.h"
#include "core/spec/json_node.h"
#include "core/spec/model_config.h"

// The parts of model_config.h for text encoders and vision transformers.
namespace mpsd::spec {

// The allowed range of a width, a vocabulary, a number of heads, positions or
// blocks.
inline Range SizeRange() { return Range::Between(1, limits::kModelSize); }
inline Range LayerRange() { return Range::Between(1, limits::kModelLayers); }

bool IsEncoderType(std::string_view model_type);

// config.json of BERT, RoBERTa, DistilBERT and ViT; defaults of their config
// classes (transformers 5.23, models/*/configuration_*.py). Errors are those of
// ParseModelConfig.
absl::StatusOr<ModelConfig> ReadEncoderConfig(const JsonNode& root,
                                              std::string_view origin);

// Reads the fields that every family's config.json may have: architectures,
// dtype, labels, pad_token_id, initializer_range.
void ReadCommon(FieldReader& fields, const JsonNode& root, ModelConfig& config);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_ENCODER_CONFIG_H_
