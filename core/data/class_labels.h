// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/spec/classification.h"
#include "core/spec/model_config.h"

namespace mpsd::data {

// A label as written in a file.
struct LabelValue {
  enum class Kind {
    kAbsent,    // an empty cell, null, no such column
    kWord,      // a class name
    kInteger,   // "7", "+07": a class name, or an id as "7"
    kFraction,  // "2.5", "1e3", "3.0", "nan"
    kList,      // several names
    kOther,     // an object, a nested list …
  };
  Kind kind = Kind::kAbsent;
  std::string text;                    // as written, in Unicode's form C
  std::vector<std::string> list = {};  // kList's names
};

// The label of a table's cell: a number if the whole text is one; a list if the
// text is a JSON list.
LabelValue LabelFromText(std::string_view text);
// The label of a row of JSON Lines. A string is a word, even "2.5" or "[1]".
LabelValue LabelFromJson(const nlohmann::ordered_json& value);

// The labels of a classification job, decided from the spec, the model's config
// and the training data, then used for every file.
struct ClassLabels {
  spec::ProblemType problem = spec::ProblemType::kSingleLabel;
  std::vector<std::string> names;  // by id; regression: only "LABEL_0"
  std::vector<double> weights;     // by id, or empty: all 1
  // Ids by the names that files may use: the labels' names, and integers if
  // integers are ids.
  std::map<std::string, int64_t, std::less<>> ids;

  int64_t outputs() const { return static_cast<int64_t>(names.size()); }
};

// The location of value i of a list of labels, for errors: "train.csv:7".
using LabelPlace = std::function<std::string(int64_t index)>;

// The labels of the training data `values`, by these rules:
//  - the problem: the spec's; else that of `glue_task`; else lists mean several
//    labels per row, and numbers of which at least one has a fraction mean a
//    regression;
//  - the names: the spec's; else those of `glue_task`, in the order of the
//    model's config if the config has the same names (ignoring case:
//    run_glue.py); else the config's, if they cover every label, perhaps in
//    another case, or if the labels are the integers 0 … n-1 for the config's n
//    names; else the data's labels, sorted, a column of integers by value;
//  - integers without sign and leading zeros are ids if no name is an integer
//    and every integer is below the number of names;
//  - -1 and -100 are no labels unless the job or the config names them so.
// Names are equal if they are in Unicode's form C. `glue_task` may be null.
// Warnings are appended to `warnings`, which may be null; an order of names
// that differs from the trained head's is one. InvalidArgument names the
// locations (at most five, one per line) or the field of the job.
absl::StatusOr<ClassLabels> DecideClassLabels(
    const std::vector<LabelValue>& values, const LabelPlace& place,
    const spec::ClassificationSpec& spec, const spec::GlueTask* glue_task,
    const spec::HeadConfig& head, std::vector<std::string>* warnings);

// The labels of a file's rows in the form for the loss; one of the two is
// empty.
struct ClassTargets {
  std::vector<int64_t> classes;  // [rows]
  std::vector<float> targets;    // [rows, outputs]: regression, multi-label
};

// InvalidArgument "<place>: label: …" for a label that is absent, that is not
// in `class_labels`, or that is not a finite number in a regression; at most
// five faults, one per line.
absl::StatusOr<ClassTargets> EncodeClassLabels(
    const std::vector<LabelValue>& values, const LabelPlace& place,
    const ClassLabels& class_labels);

// The divisor of these rows' summed loss for a mean (Batch::loss_weight): rows;
// rows × outputs for several labels per row; or the sum of the rows' class
// weights.
double LossWeight(const ClassLabels& class_labels, const ClassTargets& all,
                  const std::vector<int64_t>& rows);

// The targets and the loss weight of batch.samples.
void CopyClassTargets(const ClassLabels& class_labels, const ClassTargets& all,
                      Batch& batch);

}  // namespace mpsd::data
