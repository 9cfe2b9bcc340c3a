// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_MODEL_ENCODER_CONFIG_H_
#define MPSD_TESTS_CORE_MODEL_ENCODER_CONFIG_H_

#include <string>

#include "core/spec/model_config.h"

namespace mpsd::model {

// A small encoder of three labels.
inline spec::ModelConfig EncoderConfigOf(const std::string& model_type) {
  spec::ModelConfig config;
  config.family = spec::Family::kEncoder;
  config.model_type = model_type;
  config.vocab_size = 50;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 20;
  config.num_labels = 3;
  config.initializer_range = 0.3;
  config.pad_token_id = model_type == "roberta" ? 1 : 0;
  config.encoder.first_position = model_type == "roberta" ? 2 : 0;
  config.encoder.type_vocab_size = model_type == "bert"      ? 2
                                   : model_type == "roberta" ? 1
                                                             : 0;
  config.encoder.pooler = model_type == "bert";
  return config;
}

}  // namespace mpsd::model

#endif  // MPSD_TESTS_CORE_MODEL_ENCODER_CONFIG_H_
