// SPDX-License-Identifier: Apache-2.0
#include "core/spec/gradient_choice.h"

namespace mpsd::spec {

GradientChoice ChooseGradients(const TrainSpec& spec,
                               const ModelConfig& config) {
  const bool language_model =
      config.family == Family::kDecoder && spec.task == Task::kCausalLm;
  if (!language_model || spec.gradients == Gradients::kAutograd) return {};
  if (spec.fine_tune_type != FineTuneType::kLora ||
      !spec.lora.modules_to_save.empty()) {
    return {false, "weights of the model itself are trained"};
  }
  return {true, ""};
}

}  // namespace mpsd::spec
