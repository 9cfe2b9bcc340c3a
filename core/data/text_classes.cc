// SPDX-License-Identifier: Apache-2.0
#include "core/data/text_classes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/memory/memory.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/data/id_check.h"
#include "core/data/in_order.h"
#include "core/data/row_errors.h"

namespace mpsd::data {
namespace {

constexpr int64_t kProgressSteps = 200;
constexpr int64_t kMostRows = 256;  // per thread at a time

}  // namespace

absl::StatusOr<Batch> TextClasses::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const Collation& collation) const {
  Batch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : rows) {
    base::CheckEqual(row.size(), 1, "texts of a classifier's row");
    batch.samples.push_back(row[0]);
    batch.lengths.push_back(length(row[0]));
    batch.tokens += batch.lengths.back();
    longest = std::max(longest, batch.lengths.back());
  }
  batch.length = PaddedLength(longest, options_.max_length, collation.padding);
  const size_t cells = static_cast<size_t>(batch.rows * batch.length);
  batch.input_ids.assign(cells, options_.pad_id);
  if (has_types()) batch.token_type_ids.assign(cells, 0);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const int64_t from = samples_.begin(batch.samples[row]);
    const int64_t at = row * batch.length;
    for (int64_t i = 0; i < batch.lengths[row]; ++i) {
      batch.input_ids[at + i] = samples_.id(from + i);
      if (has_types()) batch.token_type_ids[at + i] = samples_.mark(from + i);
    }
  }
  if (has_class_labels_) CopyClassTargets(batch);
  return batch;
}

void TextClasses::CopyClassTargets(Batch& batch) const {
  const int64_t outputs = class_labels_.outputs();
  for (const int64_t sample : batch.samples) {
    if (!targets_.classes.empty()) {
      base::CheckIndex(sample, targets_.classes.size(), "a labelled text");
      batch.classes.push_back(targets_.classes[sample]);
    } else {
      base::CheckAtMost((sample + 1) * outputs, targets_.targets.size(),
                        "a text's targets and all");
      const auto begin = targets_.targets.begin() + sample * outputs;
      batch.targets.insert(batch.targets.end(), begin, begin + outputs);
    }
  }
  batch.loss_weight = LossWeight(class_labels_, targets_, batch.samples);
}

// Fills a TextClasses, some rows at a time. Threads tokenize ranges; only the
// calling thread adds them, in the rows' order.
class TextClassesMaker {
 public:
  TextClassesMaker(const LabelledTable& rows, const text::Tokenizer& tokenizer,
                   TextClasses& made)
      : rows_(rows), tokenizer_(tokenizer), made_(made) {}

  absl::Status Make(const std::function<void(double)>& progress) {
    DatasetStats& stats = made_.stats_;
    stats.dropped_rows = rows_.dropped_rows;
    stats.rows = static_cast<int64_t>(rows_.rows.size());
    const int threads = made_.options_.threads;
    InOrder<Range, EncodedTexts> pool(
        threads > 0 ? threads : WorkThreads(),
        [this](Range range) { return Encode(range); });
    const int64_t stride =
        std::clamp<int64_t>(stats.rows / kProgressSteps, 1, kMostRows);
    int64_t pushed = 0, taken = 0;
    while (taken < stats.rows && !errors_.full()) {
      if (pushed < stats.rows && !pool.full()) {
        const int64_t end = std::min(pushed + stride, stats.rows);
        pool.Push({pushed, end});
        pushed = end;
        continue;
      }
      const EncodedTexts encoded = pool.Take();
      taken = encoded.range.end;
      Add(encoded);
      if (progress) progress(static_cast<double>(taken) / stats.rows);
    }
    return errors_.status();
  }

 private:
  struct Range {
    int64_t begin, end;  // rows
  };
  struct EncodedTexts {
    Range range;
    std::vector<absl::StatusOr<text::ClassifierEncoding>> rows;
  };

  EncodedTexts Encode(Range range) const {
    EncodedTexts encoded;
    encoded.range = range;
    for (int64_t i = range.begin; i < range.end; ++i) {
      const LabelledText& row = rows_.rows[i];
      std::optional<std::string_view> pair;
      if (rows_.pairs) pair = row.pair;
      encoded.rows.push_back(tokenizer_.EncodeForClassifier(
          row.text, pair, made_.options_.max_length));
    }
    return encoded;
  }

  void Add(const EncodedTexts& encoded) {
    int64_t index = encoded.range.begin;
    std::vector<uint8_t> types;
    for (const auto& row : encoded.rows) {
      const int64_t at = index++;
      if (!row.ok()) {
        errors_.Add(rows_.Place(at), std::string(row.status().message()));
        continue;
      }
      const IdTables& tables = made_.options_.tables;
      std::string fault = TokenFault(row->ids, tables, tokenizer_);
      if (fault.empty()) fault = TypeFault(row->type_ids, tables);
      if (!fault.empty()) {
        errors_.Add(rows_.Place(at), fault);
        continue;
      }
      made_.stats_.tokens += static_cast<int64_t>(row->ids.size());
      made_.stats_.truncated_rows += row->truncated ? 1 : 0;
      types.assign(row->type_ids.begin(), row->type_ids.end());
      base::CheckEqual(types.size(), row->ids.size(), "types and ids");
      made_.samples_.Add(row->ids.data(), types.data(),
                         static_cast<int64_t>(row->ids.size()));
    }
  }

  const LabelledTable& rows_;
  const text::Tokenizer& tokenizer_;
  TextClasses& made_;
  RowErrors errors_;
};

absl::StatusOr<std::unique_ptr<TextClasses>> EncodeTextClasses(
    const LabelledTable& rows, const ClassLabels& class_labels,
    const text::Tokenizer& tokenizer, const TextClassesOptions& options,
    const std::function<void(double)>& progress) {
  auto made = absl::WrapUnique(new TextClasses(class_labels, options));
  made->pairs_ = rows.pairs;
  made->hash_ = rows.hash;
  made->has_class_labels_ = !rows.label_values.empty();
  ASSIGN_OR_RETURN(
      auto targets,
      EncodeClassLabels(rows.label_values, rows.places(), class_labels));
  made->targets_ = std::move(targets);
  RETURN_IF_ERROR(TextClassesMaker(rows, tokenizer, *made).Make(progress));
  return made;
}

}  // namespace mpsd::data
