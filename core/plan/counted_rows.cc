// SPDX-License-Identifier: Apache-2.0
#include "core/plan/counted_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/data/split.h"

namespace mpsd::plan {
namespace {

// The whole data set in the files, of which `source` may be a part.
const data::Source& WholeOf(const data::Source& source) {
  const data::Source* whole = &source;
  while (const auto* part = dynamic_cast<const data::Subset*>(whole)) {
    whole = &part->base();
  }
  return *whole;
}

}  // namespace

CountedRows::CountedRows(const data::Source& source, int64_t max_length)
    : stats_(source.stats()), max_length_(max_length) {
  const data::DatasetStats& whole = WholeOf(source).stats();
  const auto read = static_cast<double>(
      std::max<int64_t>(whole.rows + whole.dropped_rows, 1));
  cut_share_ = static_cast<double>(whole.truncated_rows) / read;
  dropped_share_ = static_cast<double>(whole.dropped_rows) / read;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  lengths_.reserve(source.size());
  for (int64_t i = 0; i < source.size(); ++i) {
    lengths_.push_back(
        static_cast<int32_t>(std::min({source.length(i), max_length, kMost})));
  }
}

CountedRows::CountedRows(std::vector<int32_t> lengths)
    : lengths_(std::move(lengths)),
      max_length_(std::numeric_limits<int32_t>::max()) {
  stats_.rows = size();
  for (const int32_t length : lengths_) stats_.tokens += length;
}

absl::StatusOr<data::Batch> CountedRows::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const data::Collation& collation) const {
  data::Batch batch;
  batch.rows = std::ssize(rows);
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : rows) {
    int64_t tokens = 0;
    for (const int64_t sample : row) {
      tokens += std::min(length(sample), max_length_);
    }
    tokens = std::min(tokens, max_length_);
    batch.tokens += tokens;
    longest = std::max(longest, tokens);
  }
  batch.length = data::PaddedLength(longest, max_length_, collation.padding);
  batch.packed = collation.packed;
  return batch;
}

}  // namespace mpsd::plan
