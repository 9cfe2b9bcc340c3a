// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::spec {

// Transformers' PreTrainedConfig.problem_type.
enum class ProblemType {
  kSingleLabel,  // cross-entropy
  kRegression,   // mean squared error, one output
  kMultiLabel,   // binary cross-entropy per label
};

inline constexpr std::pair<std::string_view, ProblemType> kProblemWords[] = {
    {"single_label_classification", ProblemType::kSingleLabel},
    {"regression", ProblemType::kRegression},
    {"multi_label_classification", ProblemType::kMultiLabel}};
std::string_view ToString(ProblemType type);

// The job's `classification` section: the meaning of the labels.
struct ClassificationSpec {
  // Absent: the type of the data's task_name, else the labels decide:
  // fractional numbers mean regression, lists mean several labels per row.
  std::optional<ProblemType> problem_type;
  // Names in the order of their ids. Empty: the config's names if they cover
  // every label of the data; else the data's labels, sorted (run_glue.py).
  std::vector<std::string> label_names;
  // A weight per label in the loss, as CrossEntropyLoss(weight=…) and
  // BCEWithLogitsLoss(pos_weight=…); empty: all 1.
  std::vector<double> class_weights;
  // A head of another size in the model's file is ignored, as with
  // from_pretrained(ignore_mismatched_sizes=True).
  bool ignore_mismatched_sizes = false;
  bool operator==(const ClassificationSpec&) const = default;
};

// A GLUE task (Wang et al. 2019; run_glue.py's --task_name): the layout of its
// files and its main metric.
struct GlueTask {
  std::string_view name;  // "mrpc"
  // Column names in the files' header line.
  std::string_view sentence1, sentence2;  // sentence2 "": single sentences
  std::string_view label;
  // Column numbers from 0 if the files have no header (CoLA: id, label, mark,
  // sentence); -1 if they have one.
  int sentence1_index, label_index;
  ProblemType problem_type;
  // Names by id, for files that contain names instead of numbers.
  std::vector<std::string_view> label_names;
  std::string_view metric_for_best_model;  // the main metric
};

// Null for an unknown name.
const GlueTask* FindGlueTask(std::string_view name);
std::vector<std::string_view> GlueTaskNames();

}  // namespace mpsd::spec
