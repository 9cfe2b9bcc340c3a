// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_MODEL_FOLDER_H_
#define MPSD_TESTS_CLIENT_MODEL_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace mpsd::client {

inline void WriteText(const std::filesystem::path& path,
                      const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A safetensors file with one tensor of `data` bytes.
inline std::string Weights(size_t data) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[)" +
                             std::to_string(data) + R"(],"data_offsets":[0,)" +
                             std::to_string(data) + "]}}";
  std::string bytes;
  for (uint64_t n = header.size(), i = 0; i < 8; ++i, n >>= 8) {
    bytes.push_back(static_cast<char>(n & 0xff));
  }
  return bytes + header + std::string(data, 'w');
}

// A small model of 100 bytes of weights, and a text for people.
inline void WriteModelFolder(const std::filesystem::path& folder) {
  WriteText(folder / "config.json", R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
      "num_hidden_layers": 1, "num_attention_heads": 2,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "hidden_act": "silu"})");
  WriteText(folder / "tokenizer.json", "{}");
  WriteText(folder / "model.safetensors", Weights(100));
  WriteText(folder / "README.md", "for people");
}

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_MODEL_FOLDER_H_
