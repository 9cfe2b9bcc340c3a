// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_PLAN_JOBS_H_
#define MPSD_TESTS_CORE_PLAN_JOBS_H_

#include <cstdint>
#include <vector>

#include "core/plan/counted_rows.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {

// The shape of Qwen2.5-0.5B.
inline spec::ModelConfig HalfBillion() {
  spec::ModelConfig model;
  model.model_type = "qwen2";
  model.vocab_size = 151936;
  model.hidden_size = 896;
  model.intermediate_size = 4864;
  model.num_hidden_layers = 24;
  model.num_attention_heads = 14;
  model.num_key_value_heads = 2;
  model.head_dim = 64;
  model.max_position_embeddings = 32768;
  model.tie_word_embeddings = true;
  model.qkv_bias = true;
  model.sliding_window.assign(24, 0);
  return model;
}

// LoRA of rank 8 on queries and values, 8 rows of up to 1,024 tokens.
inline spec::TrainSpec LoraJob() {
  spec::TrainSpec spec;
  spec.lora.target_modules = std::vector<std::string>{"q_proj", "v_proj"};
  spec.training.bf16 = true;
  spec.training.per_device_train_batch_size = 8;
  return spec;
}

// `count` rows of 10 to `longest` tokens.
inline CountedRows RowsUpTo(int32_t longest, int count = 64) {
  std::vector<int32_t> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(10 + i * 37 % (longest - 9));
  }
  lengths[0] = longest;
  return CountedRows(std::move(lengths));
}

}  // namespace mpsd::plan

#endif  // MPSD_TESTS_CORE_PLAN_JOBS_H_
