// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/json_node.h"

namespace mpsd::spec {

// Transformers' BitsAndBytesConfig, same names (transformers 5.23,
// utils/quantization_config.py): the linear layers of a decoder's blocks,
// frozen in four or eight bits. With neither flag they stay dense.
struct QuantizationSpec {
  bool load_in_4bit = false;
  // Only weights: LLM.int8() would quantise activations too.
  bool load_in_8bit = false;
  std::string bnb_4bit_quant_type = "nf4";  // the only supported type
  bool bnb_4bit_use_double_quant = false;   // the scales in eight bits
  // The layers' compute dtype: "float32" or "bfloat16", consistent with
  // training.bf16; "": that of training.bf16.
  std::string bnb_4bit_compute_dtype;
  // Linears to leave dense: names, or ends of names after a dot.
  std::vector<std::string> llm_int8_skip_modules;

  bool enabled() const { return load_in_4bit || load_in_8bit; }
  bool operator==(const QuantizationSpec&) const = default;
};

// Whether `spec` quantises the linear of this full name. As in Transformers
// these are the linears of a decoder's blocks that llm_int8_skip_modules does
// not name; embeddings and head stay dense.
bool Quantizes(const QuantizationSpec& spec, std::string_view module);

// Whether an entry of llm_int8_skip_modules matches this module: the entry is
// the module's name or whole dotted parts of that name.
bool MeansModule(std::string_view entry, std::string_view module);

// Reads config.json's "quantization_config" of a model quantised by
// bitsandbytes. Unimplemented for another method, or a type other than nf4 and
// int8.
absl::StatusOr<QuantizationSpec> ReadStoredQuantization(const JsonNode& node);

struct TrainSpec;
struct ModelConfig;
// Checks a job that asks for quantised weights, or whose model is stored
// quantised. InvalidArgument and Unimplemented say what is wrong.
absl::Status CheckQuantization(const TrainSpec& job, const ModelConfig& model);

// The bytes of `parameters` quantised parameters of a linear with `rows` rows,
// including scales.
double QuantizedBytes(const QuantizationSpec& spec, double parameters,
                      double rows);

}  // namespace mpsd::spec
