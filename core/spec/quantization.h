// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_QUANTIZATION_H_
#define MPSD_CORE_SPEC_QUANTIZATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/json_node.h"

namespace mpsd::spec {

// Transformers' BitsAndBytesConfig, same names (transformers 5.23,
// utils/quantization_config.py): the linear layers of a decoder's blocks in
// four or eight bits, frozen. Neither of the two: as they are.
struct QuantizationSpec {
  bool load_in_4bit = false;
  // Weights alone: LLM.int8() would quantise activations too.
  bool load_in_8bit = false;
  std::string bnb_4bit_quant_type = "nf4";  // there is no other
  bool bnb_4bit_use_double_quant = false;   // the scales in eight bits
  // What the layers compute in: "float32" or "bfloat16", as training.bf16 says;
  // "": that.
  std::string bnb_4bit_compute_dtype;
  // Linears to leave as they are: names, or ends of names behind a dot.
  std::vector<std::string> llm_int8_skip_modules;

  bool enabled() const { return load_in_4bit || load_in_8bit; }
  bool operator==(const QuantizationSpec&) const = default;
};

// Whether `spec` makes the linear of this full name one of few bits: those of a
// decoder's blocks that it does not skip, as Transformers does, which leaves
// embeddings and head alone.
bool Quantizes(const QuantizationSpec& spec, std::string_view module);

// Whether an entry of llm_int8_skip_modules means this module: its name, or
// whole parts of it.
bool MeansModule(std::string_view entry, std::string_view module);

// config.json's "quantization_config" of a model that bitsandbytes quantised.
// Unimplemented for another method, or another type than nf4 and int8.
absl::StatusOr<QuantizationSpec> ReadStoredQuantization(const JsonNode& node);

struct TrainSpec;
struct ModelConfig;
// Whether this job can train on weights in few bits, where it asks for them or
// the model is stored so. InvalidArgument and Unimplemented say what is wrong.
absl::Status CheckQuantization(const TrainSpec& job, const ModelConfig& model);

// Bytes that `parameters` of a linear with `rows` rows take in few bits, scales
// included.
double QuantizedBytes(const QuantizationSpec& spec, double parameters,
                      double rows);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_QUANTIZATION_H_
