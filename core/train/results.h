// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_RESULTS_H_
#define MPSD_CORE_TRAIN_RESULTS_H_

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "core/data/labels.h"
#include "core/metrics/predictions.h"

// What a classifier leaves behind beside its weights.
namespace mpsd::train {

// A confusion matrix grows with the square of the labels, and travels to the
// daemon and its clients: with more labels there is none.
inline constexpr size_t kMaxMatrixLabels = 1000;

// {"labels": [name…], "matrix": [[count…]…]}: a row a true label, a column a
// predicted one. Empty for other problems than single-label ones and for too
// many labels.
std::string ConfusionMatrixJson(const metrics::Predictions& predictions,
                                const data::Labels& labels);

// `folder`/predictions.jsonl and predictions.tsv, a line a row of the data, in
// its order:
//   {"index": 0, "prediction": "positive", "scores": {"negative": 0.1, …}}
//   index<TAB>prediction
// The prediction is a label's name; a number for a regression; a list (in TSV
// separated by commas) for several labels. Scores are softmax or, for several
// labels, the sigmoid.
absl::Status WritePredictions(const std::filesystem::path& folder,
                              const metrics::Predictions& predictions,
                              const data::Labels& labels);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_RESULTS_H_
