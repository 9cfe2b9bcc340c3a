// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "core/ckpt/safetensors.h"
#include "core/model/vit.h"
#include "core/spec/model_config.h"
#include "tests/core/relative_error.h"

// The cases of tests/golden/vit.py.

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
  config.encoder.network = model_type;
  config.encoder.embedding_size = config.hidden_size;
  config.encoder.first_position = model_type == "roberta" ? 2 : 0;
  config.encoder.type_vocab_size = model_type == "bert"      ? 2
                                   : model_type == "roberta" ? 1
                                                             : 0;
  config.encoder.pooler = model_type == "bert";
  return config;
}

inline std::filesystem::path VitFolder(const std::string& name) {
  return std::filesystem::path(MPSD_TEST_SOURCE_DIR) / "tests/golden" / name;
}

// Tensors of classes.safetensors.
class GoldenVit {
 public:
  explicit GoldenVit(const std::string& name)
      : file_(*tensorfile::SafetensorsFile::Open(VitFolder(name) /
                                                 "classes.safetensors")) {}
  bool Has(const std::string& name) const {
    return file_->entries().contains(name);
  }
  at::Tensor operator[](const std::string& name) const {
    return file_->Load(name).value();
  }
  const tensorfile::SafetensorsFile& file() const { return *file_; }

 private:
  std::unique_ptr<tensorfile::SafetensorsFile> file_;
};

inline spec::ModelConfig VitConfig(const std::string& name) {
  auto config = *spec::ReadModelConfig(VitFolder(name) / "model");
  config.num_labels = config.head.num_labels.value_or(0);
  return config;
}

inline std::unique_ptr<Classifier> LoadVit(const std::string& name,
                                           at::ScalarType dtype = at::kFloat) {
  auto weights = tensorfile::Weights::Open(VitFolder(name) / "model").value();
  return *LoadVisionClassifier({weights.get(), at::kCPU, dtype},
                               VitConfig(name));
}

// torch.manual_seed
inline void Seed(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

using testing_support::RelativeError;

}  // namespace mpsd::model
