// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

// Models as llama.cpp reads them: one GGUF file of weights, sizes, tokenizer
// and chat template (ggml, docs/gguf.md, version 3). Names of fields and
// tensors are those of the `gguf` package 0.19 (constants.py); values are those
// of llama.cpp's convert_hf_to_gguf.py.
namespace mpsd::gguf {

// How matrices are stored; vectors are fp32. Q8_0: blocks of 32 numbers, each
// with an fp16 scale.
enum class Type { kF16, kBf16, kQ8_0 };

// "f16", "bf16", "q8_0"; absent for other names.
std::optional<Type> TypeNamed(std::string_view name);

// Writes the decoder in the folder `model` to `file`, reading one weight at a
// time. Overwrites the file, not atomically: write below a StagedFolder.
// Unimplemented for a network or a tokenizer that llama.cpp would compute in
// another way, or for a quantised model, naming it.
absl::Status Write(const std::filesystem::path& model,
                   const std::filesystem::path& file, Type type);

}  // namespace mpsd::gguf
