// SPDX-License-Identifier: Apache-2.0
#include "core/spec/quantization.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/spec/modules.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

bool Flag(const JsonNode& node, std::string_view name) {
  const JsonNode* flag = node.Find(name);
  return flag != nullptr && flag->boolean;
}

std::string WordAt(const JsonNode& node, std::string_view name) {
  const JsonNode* word = node.Find(name);
  return word == nullptr ? "" : word->text;
}

// Rejects quantised modules_to_save: their codes cannot be trained.
absl::Status CheckSaved(const TrainSpec& job, const ModelConfig& model) {
  const auto saved = MatchModulesToSave(EffectiveLora(job.lora, model), model);
  if (!saved.ok()) return absl::OkStatus();  // other checks report this
  for (const Module& module : *saved) {
    const bool quantized = Quantizes(job.quantization_config, module.name) ||
                           (model.quantization && module.layer >= 0);
    if (module.kind != Module::Kind::kLinear || !quantized) continue;
    return absl::InvalidArgumentError(base::Cat(
        "lora.modules_to_save: ", module.name,
        " is quantized and cannot be trained as a whole; leave it out, or name "
        "it in quantization_config.llm_int8_skip_modules"));
  }
  return absl::OkStatus();
}

}  // namespace

bool Quantizes(const QuantizationSpec& spec, std::string_view module) {
  if (!spec.enabled() || module.find(".layers.") == std::string_view::npos) {
    return false;
  }
  return std::none_of(
      spec.llm_int8_skip_modules.begin(), spec.llm_int8_skip_modules.end(),
      [&](const std::string& entry) { return MeansModule(entry, module); });
}

bool MeansModule(std::string_view entry, std::string_view module) {
  return base::Cat(".", module, ".").find(base::Cat(".", entry, ".")) !=
         std::string::npos;
}

absl::StatusOr<QuantizationSpec> ReadStoredQuantization(const JsonNode& node) {
  QuantizationSpec spec;
  spec.load_in_4bit = Flag(node, "load_in_4bit");
  spec.load_in_8bit = Flag(node, "load_in_8bit");
  spec.bnb_4bit_use_double_quant = Flag(node, "bnb_4bit_use_double_quant");
  const bool known = WordAt(node, "quant_method") == "bitsandbytes" &&
                     spec.load_in_4bit != spec.load_in_8bit;
  if (known && spec.load_in_8bit) return spec;
  if (known && WordAt(node, "bnb_4bit_quant_type") == "nf4") return spec;
  return absl::UnimplementedError(
      "the only supported quantized base models are those of bitsandbytes in "
      "int8 and nf4; use the model in bfloat16 or float32");
}

absl::Status CheckQuantization(const TrainSpec& job, const ModelConfig& model) {
  const QuantizationSpec& asked = job.quantization_config;
  if (!asked.enabled() && !model.quantization) return absl::OkStatus();
  if (model.family != Family::kDecoder) {
    return absl::UnimplementedError(
        base::Cat("quantization_config: is for decoders; a model of type \"",
                  model.model_type, "\" is small enough without"));
  }
  if (model.quantization && asked.enabled()) {
    return absl::InvalidArgumentError(
        "quantization_config: the model is stored quantized and is used as it "
        "is; leave this out");
  }
  if (job.fine_tune_type != FineTuneType::kLora) {
    return absl::InvalidArgumentError(
        "model: its weights are quantized, which cannot be trained; use "
        "fine_tune_type \"lora\", or the model it was quantized from");
  }
  return CheckSaved(job, model);
}

double QuantizedBytes(const QuantizationSpec& spec, double parameters,
                      double rows) {
  constexpr double kFloat = 4;
  if (spec.load_in_8bit) return parameters + kFloat * rows;
  const double blocks = parameters / 64;
  const double scales = spec.bnb_4bit_use_double_quant
                            ? blocks + kFloat * blocks / 256
                            : kFloat * blocks;
  return parameters / 2 + scales;
}

}  // namespace mpsd::spec
