// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/class_labels.h"
#include "core/data/row_errors.h"
#include "core/data/source.h"
#include "core/data/token_arrays.h"
#include "core/spec/train_spec.h"
#include "core/text/tokenizer.h"

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
// "label". A label of -1 or -100 in a file to predict means no
// label.
//
// InvalidArgument names file and line, or the file and its columns; texts must
// not be empty except in GLUE's tasks. NotFound and the like for files. `train`
// is the training data, or null: if it has pairs, these files must have pairs.
absl::StatusOr<LabelledTable> ReadLabelledTable(
    const std::vector<std::string>& files, const spec::DatasetSpec& dataset,
    LabelUse use, const LabelledTable* train = nullptr);

struct TextClassesOptions {
  // Tokens per row, including special ones, at most the model's positions;
  // longer texts are truncated, see Tokenizer::EncodeForClassifier.
  int64_t max_length = 128;
  int32_t pad_id = 0;
  // The model has token types: type_vocab_size > 1.
  bool token_types = false;
  IdTables tables = {};  // rows beyond them are errors
  int threads = 0;       // for tokenizing; 0: WorkThreads()
};

// Texts or pairs as tokens, with their labels, in memory, in file order. Row i
// of the files is sample i.
class TextClasses : public Source {
 public:
  int64_t size() const override { return samples_.size(); }
  int64_t length(int64_t index) const override {
    return samples_.length(index);
  }
  // One sample per row; padded as DataCollatorWithPadding does, at the right,
  // to the longest row's bucket. token_type_ids only for pairs, if the model
  // has types; classes or targets only with labels, else loss_weight is 0.
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation& collation) const override;
  std::string hash() const override { return hash_; }
  std::string TokenDigest() const override;
  const DatasetStats& stats() const override { return stats_; }

  bool has_class_labels() const { return has_class_labels_; }
  // The labels of all samples; both empty without labels.
  const ClassTargets& targets() const { return targets_; }

 private:
  friend class TextClassesMaker;
  friend absl::StatusOr<std::unique_ptr<TextClasses>> EncodeTextClasses(
      const LabelledTable& rows, const ClassLabels& class_labels,
      const text::Tokenizer& tokenizer, const TextClassesOptions& options,
      const std::function<void(double)>& progress);
  TextClasses(const ClassLabels& class_labels,
              const TextClassesOptions& options)
      : class_labels_(class_labels), options_(options) {}
  bool has_types() const { return options_.token_types && pairs_; }

  const ClassLabels class_labels_;
  const TextClassesOptions options_;
  TokenArrays samples_;  // marks the second text's tokens
  ClassTargets targets_;
  bool has_class_labels_ = false;
  bool pairs_ = false;
  std::string hash_;
  DatasetStats stats_;
};

// Tokenizes the rows. `progress` may be null; it is called occasionally, on
// this thread, with the share done, 0 to 1. InvalidArgument as
// EncodeClassLabels, or "<place>: …" for a text that the tokenizer rejects. The
// result does not depend on the number of threads.
absl::StatusOr<std::unique_ptr<TextClasses>> EncodeTextClasses(
    const LabelledTable& rows, const ClassLabels& class_labels,
    const text::Tokenizer& tokenizer, const TextClassesOptions& options,
    const std::function<void(double)>& progress);

}  // namespace mpsd::data
