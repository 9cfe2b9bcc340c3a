// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_TEXT_CLASSES_H_
#define MPSD_CORE_DATA_TEXT_CLASSES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/class_labels.h"
#include "core/data/id_check.h"
#include "core/data/labelled_table.h"
#include "core/data/source.h"
#include "core/data/token_arrays.h"
#include "core/text/tokenizer.h"

namespace mpsd::data {

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
  void CopyClassTargets(Batch& batch) const;

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

#endif  // MPSD_CORE_DATA_TEXT_CLASSES_H_
