// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/models.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/spec/model_config.h"
#include "core/spec/modules.h"
#include "core/ckpt/safetensors.h"
#include "tests/core/golden_model.h"

namespace mpsd::ops {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

spec::ModelConfig WriteConfig(const fs::path& folder, const json& config) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump(1);
  return spec::ReadModelConfig(folder.string()).value();
}

std::unique_ptr<model::Network> Draw(spec::ModelConfig config) {
  if (config.family == spec::Family::kDecoder) {
    return *model::Decoder::Load(model::WeightSource{}, config);
  }
  config.num_labels = 2;
  return *model::Classifier::Load({}, config);
}

json HollowEntry(const std::vector<int64_t>& shape, int64_t& offset) {
  int64_t bytes = 2;
  for (const int64_t size : shape) bytes *= size;
  const int64_t begin = std::exchange(offset, offset + bytes);
  return {
      {"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, offset}}};
}

}  // namespace

void WriteModel(const fs::path& folder, const json& config) {
  const spec::ModelConfig parsed = WriteConfig(folder, config);
  at::manual_seed(1);
  const std::unique_ptr<model::Network> network = Draw(parsed);
  tensorfile::NamedTensors tensors;
  for (const model::NamedWeight& weight : network->NamedWeights()) {
    if (parsed.tie_word_embeddings && weight.name == "lm_head.weight") continue;
    tensors.emplace_back(spec::StoredName(parsed, weight.name), *weight.tensor);
  }
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  if (parsed.family == spec::Family::kVision) return;
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(testing_support::Golden("smollm", "model") / file,
                  folder / file);
  }
}

void WriteHollowDecoder(const fs::path& folder, const json& config) {
  const spec::ModelConfig parsed = WriteConfig(folder, config);
  json header = json::object();
  int64_t offset = 0;
  for (const spec::Module& m : spec::Modules(parsed)) {
    if (m.head && parsed.tie_word_embeddings) continue;
    std::vector<int64_t> shape = {m.out_features};
    if (m.kind == spec::Module::Kind::kLinear) {
      shape = {m.out_features, m.in_features};
    } else if (m.kind == spec::Module::Kind::kEmbedding) {
      shape = {m.in_features, m.out_features};
    }
    header[m.name + ".weight"] = HollowEntry(shape, offset);
    if (m.bias)
      header[m.name + ".bias"] = HollowEntry({m.out_features}, offset);
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  const fs::path path = folder / "model.safetensors";
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << text;
  }
  fs::resize_file(path, sizeof(length) + length + offset);
}

}  // namespace mpsd::ops
