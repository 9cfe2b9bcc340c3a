// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_METRICS_METRICS_H_
#define MPSD_CORE_METRICS_METRICS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/metrics/predictions.h"

// Metrics of classification and regression as scikit-learn defines them
// (sklearn 1.9, metrics/_classification.py; scipy 1.17 for correlations), in
// double precision.
namespace mpsd::metrics {

// Name and value, in the order to print them.
using Values = std::vector<std::pair<std::string, double>>;

// All that apply, named as run_glue.py's `evaluate` metrics name them:
//  - single label: accuracy, f1 (binary of class 1 with two labels), f1_macro,
//    matthews_correlation;
//  - regression: pearson, spearmanr (of one output only), mse, mae;
//  - multi-label (threshold 0.5, a logit above 0): accuracy (of whole rows),
//    f1_micro, f1_macro.
// `glue_task` (may be ""): those of the task only, with combined_score (their
// mean) where it has several, as evaluate's "glue" (MRPC: accuracy, f1). A task
// of another kind of problem does not count. Empty for no rows.
Values Compute(const Predictions& predictions, std::string_view glue_task);

// exp(mean loss in nats).
double Perplexity(double loss);

// [outputs, outputs] row-major: row = truth, column = prediction. Of
// single-label problems, whose `truth` is within 0..outputs-1.
std::vector<int64_t> ConfusionMatrix(const Predictions& predictions);

// NaN for no rows, as F1Macro.
double Accuracy(const std::vector<int64_t>& truth,
                const std::vector<int64_t>& predicted);
// Of one class against the rest; 0 where it is neither there nor predicted.
double F1Binary(const std::vector<int64_t>& truth,
                const std::vector<int64_t>& predicted, int64_t positive);
// Over the labels that occur in either, unweighted.
double F1Macro(const std::vector<int64_t>& truth,
               const std::vector<int64_t>& predicted);
// 0 where either side has one label only.
double MatthewsCorrelation(const std::vector<int64_t>& truth,
                           const std::vector<int64_t>& predicted);
// NaN for fewer than two rows, a constant side or a NaN in either.
double Pearson(const std::vector<double>& a, const std::vector<double>& b);
// Pearson of the ranks, equal values sharing their mean rank.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);

// Whether more of it is better: false for losses and errors ("loss", "mse",
// "mae", "perplexity", with "eval_" before them or not).
bool GreaterIsBetter(std::string_view metric);
// The names that Compute gives for such a problem, in its order.
std::vector<std::string> MetricNames(spec::ProblemType problem, int64_t outputs,
                                     std::string_view glue_task);

}  // namespace mpsd::metrics

#endif  // MPSD_CORE_METRICS_METRICS_H_
