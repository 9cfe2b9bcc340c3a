// SPDX-License-Identifier: Apache-2.0
#include "core/plan/epoch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/check.h"
#include "core/data/source.h"

namespace mpsd::plan {
namespace {

// The first lengths of the bins, followed by the end of the last:
// `per_doubling` bins from each power of two to the next.
std::vector<int64_t> Edges(int64_t shortest, int64_t longest,
                           int64_t per_doubling) {
  std::vector<int64_t> edges = {shortest};
  while (edges.back() <= longest) {
    int64_t power = 1;
    while (power * 2 <= edges.back()) power *= 2;
    const int64_t width = std::max<int64_t>(power / per_doubling, 1);
    // On multiples of the width, so that edges are round numbers.
    edges.push_back((edges.back() / width + 1) * width);
  }
  edges.back() = longest + 1;
  return edges;
}

}  // namespace

LengthSummary Summarize(const data::Source& rows) {
  LengthSummary summary;
  const int64_t count = rows.size();
  if (count == 0) return summary;
  std::map<int64_t, int64_t> counts;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    ++counts[rows.length(i)];
    sum += static_cast<double>(rows.length(i));
  }
  summary.mean = sum / static_cast<double>(count);
  summary.shortest = counts.begin()->first;
  summary.longest = counts.rbegin()->first;
  int64_t before = 0;
  for (const auto& [length, here] : counts) {
    // The smallest length that half (95 %) of the rows do not exceed.
    if (before < (count + 1) / 2) summary.median = length;
    if (before < (count * 19 + 19) / 20) summary.p95 = length;
    before += here;
  }
  std::vector<int64_t> edges;
  for (int64_t per_doubling = 16; edges.empty() || per_doubling > 0;
       per_doubling /= 2) {
    edges = Edges(summary.shortest, summary.longest, per_doubling);
    if (std::ssize(edges) - 1 <= kMostBins) break;
  }
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    LengthBin bin{edges[i], edges[i + 1] - 1, 0};
    for (auto it = counts.lower_bound(bin.from);
         it != counts.end() && it->first <= bin.to; ++it) {
      bin.rows += it->second;
    }
    summary.bins.push_back(bin);
  }
  return summary;
}

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
    : stats_(source.stats()),
      sequences_(source.sequences()),
      max_length_(max_length) {
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
    if (sequences_ > 1) {
      tokens_.push_back(
          static_cast<int32_t>(std::min(source.tokens(i), kMost)));
    }
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
  batch.rows = std::ssize(rows) * sequences_;
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : rows) {
    int64_t tokens = 0;
    for (const int64_t sample : row) {
      tokens += std::min(length(sample), max_length_);
    }
    tokens = std::min(tokens, max_length_);
    batch.tokens += tokens_.empty() ? tokens : this->tokens(row[0]);
    longest = std::max(longest, tokens);
  }
  batch.length = data::PaddedLength(longest, max_length_, collation.padding);
  batch.packed = collation.packed;
  return batch;
}

namespace {

void Add(const data::Batch& batch, Epoch& epoch) {
  epoch.tokens += batch.tokens;
  epoch.padded_tokens += batch.rows * batch.length;
  ++epoch.batches[{batch.rows, batch.length}];
}

std::string Patch(const char* strategy, bool language, bool packing,
                  bool padding_free) {
  nlohmann::json training = {{"train_sampling_strategy", strategy}};
  if (language) {
    training["packing"] = packing;
    training["padding_free"] = padding_free;
  }
  return nlohmann::json{{"training", std::move(training)}}.dump();
}

// The table's name for a job's own options.
const char* NameOf(const data::LoaderOptions& options) {
  if (options.packing) return "packing";
  if (options.padding_free) return "padding_free";
  if (options.group_by_length) return "group_by_length";
  return options.shuffle ? "random" : "sequential";
}

}  // namespace

double Epoch::padding_share() const {
  if (padded_tokens == 0) return 0;
  return 1 - static_cast<double>(tokens) / static_cast<double>(padded_tokens);
}

Epoch CountEpoch(CountedRows rows, const data::LoaderOptions& options) {
  rows.set_max_length(options.max_length);
  data::Loader loader(rows, options);
  Epoch epoch;
  epoch.steps = loader.steps_per_epoch();
  for (int64_t step = 0; step < epoch.steps; ++step) {
    const auto batches = loader.NextStep();
    base::Check(batches.ok(), "counting rows cannot fail");
    for (const data::Batch& batch : *batches) Add(batch, epoch);
  }
  return epoch;
}

Epoch CountEvaluation(const data::BatchShapes& shapes, CountedRows rows,
                      const CountedRows& train, int64_t micro_batch_rows,
                      int64_t max_length) {
  rows.set_max_length(max_length);
  const data::EvalLoader loader =
      shapes.EvalBatches(rows, train, micro_batch_rows);
  Epoch epoch;
  for (int64_t i = 0; i < loader.count(); ++i) {
    const auto batch = loader.Load(i);
    base::Check(batch.ok(), "counting rows cannot fail");
    Add(*batch, epoch);
  }
  return epoch;
}

std::vector<Sampling> Samplings(const spec::TrainSpec& spec,
                                const data::LoaderOptions& own) {
  const bool language =
      spec.task == spec::Task::kCausalLm && !spec.preference.enabled();
  std::vector<Sampling> all;
  const auto add = [&](const char* name, const char* strategy, bool packing,
                       bool padding_free) {
    Sampling sampling{.name = name,
                      .chosen = name == std::string(NameOf(own)),
                      .patch = Patch(strategy, language, packing, padding_free),
                      .options = own};
    if (!sampling.chosen) {
      sampling.options.shuffle = strategy != std::string("sequential");
      sampling.options.group_by_length =
          strategy == std::string("group_by_length");
      sampling.options.packing = packing;
      sampling.options.padding_free = padding_free;
    }
    all.push_back(std::move(sampling));
  };
  const std::string& strategy = spec.training.train_sampling_strategy;
  // Images have one size: no order reduces padding.
  const bool images = spec.task == spec::Task::kImageCls;
  if (!images || strategy == "random") add("random", "random", false, false);
  if (!images || strategy == "sequential") {
    add("sequential", "sequential", false, false);
  }
  if (!images || strategy == "group_by_length") {
    add("group_by_length", "group_by_length", false, false);
  }
  if (language) {
    add("padding_free", "random", false, true);
    add("packing", "random", true, false);
  }
  return all;
}

}  // namespace mpsd::plan
