// SPDX-License-Identifier: Apache-2.0
#include "core/train/results.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/report/metrics.h"

namespace mpsd::train {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> Softmax(const float* logits, int64_t count) {
  base::CheckLess(0, count, "scores of a row");
  const double highest = *std::max_element(logits, logits + count);
  std::vector<double> scores(logits, logits + count);
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - highest);
  for (double& s : scores) s /= sum;
  return scores;
}

std::vector<double> Sigmoids(const float* logits, int64_t count) {
  std::vector<double> scores(logits, logits + count);
  for (double& s : scores) s = 1 / (1 + std::exp(-s));
  return scores;
}

Json Named(const std::vector<double>& scores,
           const data::ClassLabels& class_labels) {
  base::CheckAtMost(scores.size(), class_labels.names.size(),
                    "scores and names");
  Json named = Json::object();
  for (size_t i = 0; i < scores.size(); ++i) {
    named[class_labels.names[i]] = scores[i];
  }
  return named;
}

// One line of predictions.jsonl.
Json RowOf(const float* logits, const data::ClassLabels& class_labels) {
  const int64_t count = class_labels.outputs();
  if (class_labels.problem == spec::ProblemType::kRegression) {
    if (count == 1) return {{"prediction", logits[0]}};
    return {{"prediction", std::vector<float>(logits, logits + count)}};
  }
  if (class_labels.problem == spec::ProblemType::kMultiLabel) {
    const std::vector<double> scores = Sigmoids(logits, count);
    Json chosen = Json::array();
    for (int64_t i = 0; i < count; ++i) {
      if (logits[i] > 0) chosen.push_back(class_labels.names[i]);
    }
    return {{"prediction", chosen}, {"scores", Named(scores, class_labels)}};
  }
  const int64_t best = std::max_element(logits, logits + count) - logits;
  return {{"prediction", class_labels.names[best]},
          {"scores", Named(Softmax(logits, count), class_labels)}};
}

std::string Cell(const Json& prediction) {
  if (prediction.is_string()) return prediction.get<std::string>();
  if (!prediction.is_array()) return prediction.dump();
  std::string cell;
  for (const Json& item : prediction) {
    if (!cell.empty()) cell += ",";
    cell += Cell(item);
  }
  return cell;
}

}  // namespace

std::string ConfusionMatrixJson(const metrics::Predictions& predictions,
                                const data::ClassLabels& class_labels) {
  if (class_labels.problem != spec::ProblemType::kSingleLabel ||
      predictions.rows() == 0 || class_labels.names.size() > kMaxMatrixLabels) {
    return "";
  }
  const std::vector<int64_t> counts = metrics::ConfusionMatrix(predictions);
  const size_t n = class_labels.names.size();
  base::CheckEqual(counts.size(), n * n, "cells of a confusion matrix");
  Json matrix = Json::array();
  for (size_t i = 0; i < n; ++i) {
    matrix.push_back(std::vector<int64_t>(counts.begin() + i * n,
                                          counts.begin() + (i + 1) * n));
  }
  return Json{{"labels", class_labels.names}, {"matrix", matrix}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

absl::Status WritePredictions(const std::filesystem::path& folder,
                              const metrics::Predictions& predictions,
                              const data::ClassLabels& class_labels) {
  base::CheckEqual(predictions.outputs, class_labels.outputs(),
                   "outputs of the model and of its labels");
  std::string jsonl, tsv = "index\tprediction\n";
  for (int64_t i = 0; i < predictions.rows(); ++i) {
    Json row = {{"index", i}};
    row.update(
        RowOf(&predictions.logits[i * predictions.outputs], class_labels));
    jsonl += row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    absl::StrAppend(&tsv, i, "\t", Cell(row["prediction"]), "\n");
  }
  RETURN_IF_ERROR(base::WriteFileAtomic(folder / "predictions.jsonl", jsonl));
  return base::WriteFileAtomic(folder / "predictions.tsv", tsv);
}

}  // namespace mpsd::train
