// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_CLASS_LABELS_H_
#define MPSD_CORE_DATA_CLASS_LABELS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/classification.h"
#include "core/spec/model_config.h"

namespace mpsd::data {

// A label as a file writes it.
struct LabelValue {
  enum class Kind {
    kAbsent,    // an empty cell, null, no such column
    kWord,      // a class name
    kInteger,   // a class name or an id
    kFraction,  // "2.5", "1e3", "3.0", "nan"
    kList,      // several names
    kOther,     // an object, a list in a list …
  };
  Kind kind = Kind::kAbsent;
  std::string text;                    // as written; kInteger: no "+", no zeros
  std::vector<std::string> list = {};  // kList's names
};

// The label that an image folder's name or a table's cell gives: a number where
// the whole text is one; a list where the text is a JSON list.
LabelValue LabelFromText(std::string_view text);
// The label of a row of JSON Lines. A string is a word, even "2.5" or "[1]",
// unless it is an integer.
LabelValue LabelFromJson(const nlohmann::ordered_json& value);

// The labels of a classification job, decided from the spec, the model's config
// and the training data, then used for every file.
struct ClassLabels {
  spec::ProblemType problem = spec::ProblemType::kSingleLabel;
  std::vector<std::string> names;  // by id; regression: one, "LABEL_0"
  std::vector<double> weights;     // by id, or empty: all 1
  // Ids by the names that files may use: the labels' names, and integers where
  // integers are ids.
  std::map<std::string, int64_t, std::less<>> ids;

  int64_t outputs() const { return static_cast<int64_t>(names.size()); }
};

// The place of value i of a list of labels, for errors: "train.csv:7".
using LabelPlace = std::function<std::string(int64_t index)>;

// The labels of the training data `values`, by these rules:
//  - the problem: the spec's; else that of `glue_task`; else lists mean several
//    labels a row, and numbers of which at least one has a fraction mean a
//    regression;
//  - the names: the spec's; else those of `glue_task`, in the order of the
//    model's config where the config has the same names (letter case aside:
//    run_glue.py); else the config's, where they cover every label, or where
//    the labels are the integers 0 … n-1 for the config's n names; else the
//    data's labels, sorted, integers as numbers;
//  - integers are ids where no name is an integer and every integer is below
//    the number of names.
// `glue_task` may be null. Warnings are appended to `warnings`, which may be
// null. InvalidArgument names the place (up to five of them, one a line) or the
// field of the job.
absl::StatusOr<ClassLabels> DecideClassLabels(
    const std::vector<LabelValue>& values, const LabelPlace& place,
    const spec::ClassificationSpec& spec, const spec::GlueTask* glue_task,
    const spec::HeadConfig& head, std::vector<std::string>* warnings);

// The labels of a file's rows as the loss takes them; one of the two is empty.
struct ClassTargets {
  std::vector<int64_t> classes;  // [rows]
  std::vector<float> targets;    // [rows, outputs]: regression, multi-label
};

// InvalidArgument "<place>: label: …" for a label that is absent, that is not
// in `class_labels`, or that is no finite number in a regression; up to five
// faults, one a line.
absl::StatusOr<ClassTargets> EncodeClassLabels(
    const std::vector<LabelValue>& values, const LabelPlace& place,
    const ClassLabels& class_labels);

// The number by which these rows' summed loss is divided for a mean
// (Batch::loss_weight): rows; rows × outputs for several labels a row; or the
// sum of the rows' class weights.
double LossWeight(const ClassLabels& class_labels, const ClassTargets& all,
                  const std::vector<int64_t>& rows);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_CLASS_LABELS_H_
