// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/spec/classification.h"

// Metrics of classification and regression as scikit-learn defines them
// (sklearn 1.9, metrics/_classification.py; scipy 1.17 for correlations), in
// double precision.

namespace mpsd::metrics {

// A classifier's outputs for a data set and the true labels. Rows are in
// data-set order.
struct Predictions {
  spec::ProblemType problem = spec::ProblemType::kSingleLabel;
  int64_t outputs = 0;         // per row
  std::vector<float> logits;   // [rows, outputs]
  std::vector<int64_t> truth;  // [rows], single-label problems only
  std::vector<float> targets;  // [rows, outputs], the other problems

  int64_t rows() const {
    return outputs == 0 ? 0 : static_cast<int64_t>(logits.size()) / outputs;
  }
  // The class with the highest logit of each row, the first if equal.
  std::vector<int64_t> Classes() const;
};

// Name and value, in display order.
using Values = std::vector<std::pair<std::string, double>>;

// All metrics that apply, with the names of run_glue.py's `evaluate` metrics:
//  - single label: accuracy, f1 (binary of class 1 with two labels), f1_macro,
//    matthews_correlation;
//  - regression: pearson, spearmanr (both only with one output), mse, mae;
//  - multi-label (threshold 0.5, a logit above 0): accuracy (a row counts if
//    all its labels are right), f1_micro, f1_macro.
// With a `glue_task` (else ""): only that task's metrics, with combined_score
// (their mean) if the task has several, as evaluate's "glue" (MRPC: accuracy,
// f1). A task for another kind of problem is ignored. Empty without rows.
Values Compute(const Predictions& predictions, std::string_view glue_task);

// exp(mean loss in nats).
double Perplexity(double loss);

// [outputs, outputs] row-major: row = truth, column = prediction. Only for
// single-label problems, whose `truth` is within 0..outputs-1.
std::vector<int64_t> ConfusionMatrix(const Predictions& predictions);

// NaN without rows, like F1Macro.
double Accuracy(const std::vector<int64_t>& truth,
                const std::vector<int64_t>& predicted);
// The F1 score of class `positive` against the rest; 0 if no row has the class
// or is predicted to have it.
double F1Binary(const std::vector<int64_t>& truth,
                const std::vector<int64_t>& predicted, int64_t positive);
// The unweighted mean of F1 over the labels that occur in either list.
double F1Macro(const std::vector<int64_t>& truth,
               const std::vector<int64_t>& predicted);
// 0 if either side has only one label.
double MatthewsCorrelation(const std::vector<int64_t>& truth,
                           const std::vector<int64_t>& predicted);
// NaN for fewer than two rows, a constant side or a NaN in either.
double Pearson(const std::vector<double>& a, const std::vector<double>& b);
// Pearson of the ranks, where equal values get their mean rank.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);

// Whether a higher value is better: false for losses and errors ("loss", "mse",
// "mae", "perplexity", with or without "eval_").
bool GreaterIsBetter(std::string_view metric);
// The names that Compute gives for such a problem, in the order of Compute's
// result.
std::vector<std::string> MetricNames(spec::ProblemType problem, int64_t outputs,
                                     std::string_view glue_task);

}  // namespace mpsd::metrics
