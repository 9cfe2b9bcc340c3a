// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_TRAIN_SPEC_WORDS_H_
#define MPSD_CORE_SPEC_TRAIN_SPEC_WORDS_H_

#include <iterator>
#include <string_view>
#include <vector>

#include "core/host/traits.h"
#include "core/spec/fields.h"
#include "core/spec/train_spec.h"

// The allowed words of job.json's fields, each list defined only here.
namespace mpsd::spec {

// The word for `value`; "" if there is none.
template <typename E>
std::string_view WordOf(E value, const Words<E>& words) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "";
}

inline const Words<Task>& TaskWords() {
  static const Words<Task>& words =
      *new Words<Task>{{"CAUSAL_LM", Task::kCausalLm},
                       {"SEQ_CLS", Task::kSeqCls},
                       {"IMAGE_CLS", Task::kImageCls}};
  return words;
}

inline const Words<FineTuneType>& FineTuneWords() {
  static const Words<FineTuneType>& words =
      *new Words<FineTuneType>{{"lora", FineTuneType::kLora},
                               {"full", FineTuneType::kFull},
                               {"head", FineTuneType::kHead}};
  return words;
}

inline const Words<ProblemType>& ProblemWords() {
  static const auto& words = *new Words<ProblemType>{
      {ToString(ProblemType::kSingleLabel), ProblemType::kSingleLabel},
      {ToString(ProblemType::kRegression), ProblemType::kRegression},
      {ToString(ProblemType::kMultiLabel), ProblemType::kMultiLabel}};
  return words;
}

inline const Words<Recompute>& RecomputeWords() {
  static const Words<Recompute>& words = *new Words<Recompute>{
      {"full", Recompute::kFull}, {"selective", Recompute::kSelective}};
  return words;
}

inline const Words<Gradients>& GradientsWords() {
  static const Words<Gradients>& words = *new Words<Gradients>{
      {"auto", Gradients::kAuto}, {"autograd", Gradients::kAutograd}};
  return words;
}

inline const Words<DeviceChoice>& DeviceWords() {
  static const Words<DeviceChoice>& words = *new Words<DeviceChoice>(
      std::begin(backend::kChoices), std::end(backend::kChoices));
  return words;
}

// Transformers' SchedulerType, without the types that need an argument.
inline const std::vector<std::string_view>& SchedulerWords() {
  static const std::vector<std::string_view>& words =
      *new std::vector<std::string_view>{
          "linear",      "cosine",   "cosine_with_restarts",
          "polynomial",  "constant", "constant_with_warmup",
          "inverse_sqrt"};
  return words;
}

// Transformers' train_sampling_strategy, without those for several devices.
inline const std::vector<std::string_view>& SamplingWords() {
  static const std::vector<std::string_view>& words =
      *new std::vector<std::string_view>{"random", "sequential",
                                         "group_by_length"};
  return words;
}

inline const std::vector<std::string_view>& FormatWords() {
  static const std::vector<std::string_view>& words =
      *new std::vector<std::string_view>{"alpaca", "alpaca_chat"};
  return words;
}

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_TRAIN_SPEC_WORDS_H_
