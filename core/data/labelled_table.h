// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_LABELLED_TABLE_H_
#define MPSD_CORE_DATA_LABELLED_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/class_labels.h"
#include "core/spec/train_spec.h"

namespace mpsd::data {

struct LabelledText {
  std::string text;
  std::string pair;  // the second text of a pair
  int32_t file = 0;  // in LabelledTable::files
  int64_t line = 0;  // first line in the file, from 1
};

// The rows of a text classification, read and not yet tokenized.
struct LabelledTable {
  std::vector<std::string> files;
  std::vector<LabelledText> rows;
  std::vector<LabelValue> label_values;  // one per row, or empty
  bool pairs = false;
  int64_t dropped_rows = 0;  // see ReadTable
  std::string hash;          // SHA-256 over the files' bytes, in hexadecimal

  std::string Place(int64_t index) const;  // "train.csv:7"
  // Place, for the functions of class_labels.h; this object must outlive it.
  LabelPlace places() const;
};

enum class LabelUse {
  kRequired,  // a file without a label column is an error
  // For files to predict: if any row lacks a label, all labels are dropped.
  kOptional,
};

// Reads the files (see ReadTable) with the columns that `dataset` names: its
// text_columns, else the columns of its task_name in GLUE's own files or
// Hugging Face's `glue` data set, else "sentence1" and "sentence2", "sentence",
// or "text". The label is in label_column, else in the task's column, else in
// "label". A label of -1 in a file to predict means no label.
//
// InvalidArgument names file and line, or the file and its columns; texts must
// not be empty except in GLUE's tasks. NotFound and the like for files. `train`
// is the training data, or null: if it has pairs, these files must have pairs.
absl::StatusOr<LabelledTable> ReadLabelledTable(
    const std::vector<std::string>& files, const spec::DatasetSpec& dataset,
    LabelUse use, const LabelledTable* train = nullptr);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_LABELLED_TABLE_H_
