// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "core/data/class_labels.h"
#include "core/report/metrics.h"

// What a classifier writes in addition to its weights.
namespace mpsd::train {

// The most labels for which a confusion matrix is made: it grows with the
// square of the labels, and is sent to the daemon and its clients.
inline constexpr size_t kMaxMatrixLabels = 1000;

// {"labels": [name…], "matrix": [[count…]…]}: one row per true label, one
// column per predicted label. Empty for problems other than single-label ones,
// and for more than kMaxMatrixLabels labels.
std::string ConfusionMatrixJson(const metrics::Predictions& predictions,
                                const data::ClassLabels& class_labels);

// Writes `folder`/predictions.jsonl and predictions.tsv, one line per row of
// the data, in the data's order:
//   {"index": 0, "prediction": "positive", "scores": {"negative": 0.1, …}}
//   with "image": "cats/1.png" after the index of a file
//   index<TAB>prediction
// The prediction is a label's name; for a regression a number; for several
// labels a list (in TSV separated by commas). Scores are the softmax or, for
// several labels, the sigmoid of the logits. `name` gives a row's image or
// "". DataLoss names a row whose logits are not finite: it has no label.
absl::Status WritePredictions(const std::filesystem::path& folder,
                              const metrics::Predictions& predictions,
                              const data::ClassLabels& class_labels,
                              const data::LabelPlace& name);

}  // namespace mpsd::train
