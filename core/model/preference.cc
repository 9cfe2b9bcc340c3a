// SPDX-License-Identifier: Apache-2.0
#include "core/model/preference.h"

#include <ATen/ATen.h>

#include <iterator>

#include "core/base/check.h"
#include "core/base/ignore_index.h"

namespace mpsd::model {
namespace {

// A loss per pair and its derivative by the difference of the scores.
struct Difference {
  at::Tensor loss, slope;  // fp32 [pairs]
};

Difference Compare(const spec::PreferenceSpec& spec, const at::Tensor& d) {
  const double beta = spec.beta, epsilon = spec.label_smoothing;
  const at::Tensor x = d * beta;
  switch (spec.loss_type) {
    case spec::PreferenceLoss::kSigmoid:
      return {-at::log_sigmoid(x), at::sigmoid(-x) * -beta};
    case spec::PreferenceLoss::kHinge:
      return {at::relu(1 - x), (x < 1).to(at::kFloat) * -beta};
    case spec::PreferenceLoss::kRobust: {
      const double scale = 1 / (1 - 2 * epsilon);
      return {
          (at::log_sigmoid(x) * (epsilon - 1) + at::log_sigmoid(-x) * epsilon) *
              scale,
          (at::sigmoid(-x) * (epsilon - 1) - at::sigmoid(x) * epsilon) *
              (beta * scale)};
    }
    case spec::PreferenceLoss::kIpo:
      break;
  }
  const at::Tensor off = d - 1 / (2 * beta);
  return {off.square(), off * 2};
}

}  // namespace

PairTerms TermsOfPairs(const spec::PreferenceSpec& spec, const Answers& answers,
                       const at::Tensor& losses) {
  const int64_t rows = answers.rows, pairs = rows / 2;
  base::CheckEqual(rows, 2 * pairs, "answers, and those of whole pairs");
  const at::Tensor real =
      (answers.labels.targets != base::kIgnoreIndex).to(at::kFloat);
  // Every label has a place of its own; padding adds zeros to the first. So the
  // order of the additions changes nothing.
  const auto sum_by_row = [&](const at::Tensor& values) {
    return at::zeros({rows * answers.length}, values.options())
        .index_add_(0, answers.labels.rows, values)
        .view({rows, answers.length})
        .sum(1);
  };
  const at::Tensor logps = -sum_by_row(losses * real);
  const at::Tensor scores =
      answers.reference.defined() ? logps - answers.reference : logps;
  at::Tensor compared = scores, counts;
  if (spec.loss_type == spec::PreferenceLoss::kIpo) {
    counts = sum_by_row(real).clamp_min_(1);
    compared = scores / counts;
  }
  const auto chosen = [&](const at::Tensor& t) {
    return t.narrow(0, 0, pairs);
  };
  const auto rejected = [&](const at::Tensor& t) {
    return t.narrow(0, pairs, pairs);
  };
  const Difference pair = Compare(spec, chosen(compared) - rejected(compared));
  const at::Tensor rewards = scores * spec.beta;
  const at::Tensor margin = chosen(rewards) - rejected(rewards);
  PairTerms terms;
  terms.losses = pair.loss;
  terms.metrics = at::stack(
      {chosen(rewards), rejected(rewards), (margin > 0).to(at::kFloat), margin,
       chosen(logps), rejected(logps)},
      1);
  base::CheckEqual(terms.metrics.size(1), std::size(kPreferenceMetrics),
                   "metrics and their names");
  // By −Σ log p of each row.
  at::Tensor by_row = at::cat({-pair.slope, pair.slope});
  if (counts.defined()) by_row = by_row / counts;
  terms.weights = by_row.unsqueeze(1)
                      .expand({rows, answers.length})
                      .reshape({-1})
                      .index_select(0, answers.labels.rows) *
                  real;
  return terms;
}

}  // namespace mpsd::model
