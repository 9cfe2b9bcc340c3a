// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_CLASSIFICATION_H_
#define MPSD_CORE_SPEC_CLASSIFICATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::spec {

// Transformers' PreTrainedConfig.problem_type.
enum class ProblemType {
  kSingleLabel,  // "single_label_classification": cross-entropy
  kRegression,   // "regression": mean squared error, one output
  kMultiLabel,   // "multi_label_classification": binary cross-entropy a label
};

// The job's `classification` section: what the labels are.
struct ClassificationSpec {
  // Absent: what the data's task_name says, else what the labels look like:
  // numbers with a fraction are a regression, lists several labels.
  std::optional<ProblemType> problem_type;
  // Names in the order of their ids. Empty: the config's, where every label of
  // the data is among them; else those of the data, sorted (run_glue.py).
  std::vector<std::string> label_names;
  // A weight for each label in the loss, as CrossEntropyLoss(weight=…) and
  // BCEWithLogitsLoss(pos_weight=…); empty: all 1.
  std::vector<double> class_weights;
  // Take a head of another size in the model's file for absent, as
  // from_pretrained(ignore_mismatched_sizes=True).
  bool ignore_mismatched_sizes = false;
  bool operator==(const ClassificationSpec&) const = default;
};

// A GLUE task (Wang et al. 2019; run_glue.py's --task_name): how its files are
// laid out and what it is judged by.
struct GlueTask {
  std::string_view name;  // "mrpc"
  // Column names in the files' header line.
  std::string_view sentence1, sentence2;  // sentence2 "": single sentences
  std::string_view label;
  // Columns counted from 0 where the files have no header (CoLA: id, label,
  // mark, sentence); -1: they have one.
  int sentence1_index, label_index;
  ProblemType problem_type;
  // By id; for files that hold names instead of numbers.
  std::vector<std::string_view> label_names;
  std::string_view metric_for_best_model;  // of those that it is judged by
};

// Null for an unknown name.
const GlueTask* FindGlueTask(std::string_view name);
std::vector<std::string_view> GlueTaskNames();

std::string_view ToString(ProblemType type);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_CLASSIFICATION_H_
