// SPDX-License-Identifier: Apache-2.0
#include "core/data/text_classes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/memory/memory.h"
#include "core/data/row_errors.h"

namespace mpsd::data {
namespace {

constexpr int64_t kProgressSteps = 200;

}  // namespace

absl::StatusOr<Batch> TextClasses::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const Collation& collation) const {
  Batch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : rows) {
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
    const Tokens& sample = samples_[batch.samples[row]];
    const int64_t at = row * batch.length;
    std::copy(sample.ids.begin(), sample.ids.end(),
              batch.input_ids.begin() + at);
    std::copy(sample.types.begin(), sample.types.end(),
              batch.token_type_ids.begin() + (has_types() ? at : 0));
  }
  if (has_labels_) CopyLabels(batch);
  return batch;
}

void TextClasses::CopyLabels(Batch& batch) const {
  const int64_t outputs = labels_.outputs();
  for (const int64_t sample : batch.samples) {
    if (!targets_.classes.empty()) {
      batch.classes.push_back(targets_.classes[sample]);
    } else {
      const auto begin = targets_.targets.begin() + sample * outputs;
      batch.targets.insert(batch.targets.end(), begin, begin + outputs);
    }
  }
  batch.loss_weight = LossWeight(labels_, targets_, batch.samples);
}

absl::StatusOr<std::unique_ptr<TextClasses>> EncodeTextClasses(
    const TextRows& rows, const Labels& labels,
    const text::Tokenizer& tokenizer, const TextClassesOptions& options,
    const std::function<void(double)>& progress) {
  auto made = absl::WrapUnique(new TextClasses(labels, options));
  made->pairs_ = rows.pairs;
  made->hash_ = rows.hash;
  made->has_labels_ = !rows.labels.empty();
  auto targets = EncodeLabels(rows.labels, rows.places(), labels);
  if (!targets.ok()) return targets.status();
  made->targets_ = *std::move(targets);
  DatasetStats& stats = made->stats_;
  stats.dropped_rows = rows.dropped_rows;
  stats.rows = static_cast<int64_t>(rows.rows.size());
  const int64_t stride = std::max<int64_t>(1, stats.rows / kProgressSteps);
  RowErrors errors;
  for (int64_t i = 0; i < stats.rows && !errors.full(); ++i) {
    const LabelledText& row = rows.rows[i];
    std::optional<std::string_view> pair;
    if (rows.pairs) pair = row.pair;
    auto encoding =
        tokenizer.EncodeForClassifier(row.text, pair, options.max_length);
    if (!encoding.ok()) {
      errors.Add(rows.Place(i), std::string(encoding.status().message()));
      continue;
    }
    stats.tokens += static_cast<int64_t>(encoding->ids.size());
    stats.truncated_rows += encoding->truncated ? 1 : 0;
    TextClasses::Tokens tokens{std::move(encoding->ids), {}};
    if (made->has_types()) {
      tokens.types.assign(encoding->type_ids.begin(), encoding->type_ids.end());
    }
    made->samples_.push_back(std::move(tokens));
    if (progress && (i + 1) % stride == 0) progress((i + 1.0) / stats.rows);
  }
  if (absl::Status s = errors.status(); !s.ok()) return s;
  return made;
}

}  // namespace mpsd::data
