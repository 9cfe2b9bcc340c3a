// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/losses.h"
#include "core/spec/train_spec.h"

namespace mpsd::model {

// TRL's metrics of pairs, each a mean over pairs: rewards are β times the score
// of an answer, the accuracy is the share of pairs whose chosen answer has the
// higher reward.
inline constexpr const char* kPreferenceMetrics[] = {
    "rewards/chosen",  "rewards/rejected", "rewards/accuracies",
    "rewards/margins", "logps/chosen",     "logps/rejected"};
inline constexpr int64_t kChosenLogps = 4, kRejectedLogps = 5;

// The selected labels of rows [chosen answers, rejected answers], in the same
// order of pairs.
struct Answers {
  const LabelSelection& labels;
  int64_t rows, length;  // of the batch
  at::Tensor reference;  // fp32 [rows], log-probabilities; undefined: zeros
};

struct PairTerms {
  at::Tensor losses;   // fp32 [pairs]
  at::Tensor metrics;  // fp32 [pairs, kPreferenceMetrics]
  // fp32 [labels]: the derivative of the sum of `losses` by each label's own
  // cross entropy.
  at::Tensor weights;
};

// The loss of each pair (trl 1.16, dpo_trainer.py). With an answer's score
// s = Σ log p − its reference, n its labels, and d = s(chosen) − s(rejected):
//   kSigmoid  −log σ(β d)
//   kHinge    max(0, 1 − β d)
//   kRobust   (−(1 − ε) log σ(β d) + ε log σ(−β d)) / (1 − 2 ε), where ε is
//             label_smoothing
//   kIpo      (s(chosen) / n − s(rejected) / n − 1 / (2 β))²
// `losses`: of each label −log p, fp32 [labels]; anything without a target.
PairTerms TermsOfPairs(const spec::PreferenceSpec& spec, const Answers& answers,
                       const at::Tensor& losses);

}  // namespace mpsd::model
