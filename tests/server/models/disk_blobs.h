// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/sha256.h"
#include "server/models/pushed_models.h"
#include "server/store/blob_store.h"

namespace mpsd::models {

inline constexpr char kTinyConfig[] = R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "hidden_act": "silu"})";

// Blobs as files of a folder, without a database.
class DiskBlobs final : public jobs::Blobs {
 public:
  explicit DiskBlobs(std::filesystem::path folder)
      : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  bool Has(const std::string& sha256) override {
    return !hidden.contains(sha256) && std::filesystem::exists(PathOf(sha256));
  }
  std::string PathOf(const std::string& sha256) const override {
    return folder_ / sha256;
  }
  ModelFile Put(const std::string& path, const std::string& bytes) {
    const std::string sha256 = base::Sha256Hex(bytes);
    std::ofstream(PathOf(sha256), std::ios::binary) << bytes;
    return {path, sha256, static_cast<int64_t>(bytes.size())};
  }
  // A small model whose files differ from others' by `salt`.
  std::vector<ModelFile> PutModel(const std::string& salt) {
    return {Put("config.json", kTinyConfig), Put("tokenizer.json", salt)};
  }

  std::set<std::string> hidden;  // of another user

 private:
  const std::filesystem::path folder_;
};

}  // namespace mpsd::models
