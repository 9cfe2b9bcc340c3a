// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/data/batch_shapes.h"
#include "core/data/source.h"
#include "core/spec/train_spec.h"

// The lengths of a data set and the batches of a pass over it, counted without
// tokens or pixels.
namespace mpsd::plan {

// The most bins of a histogram.
inline constexpr int64_t kMostBins = 64;

// Rows of `from` to `to` tokens, both inclusive.
struct LengthBin {
  int64_t from = 0, to = 0, rows = 0;
  bool operator==(const LengthBin&) const = default;
};

struct LengthSummary {
  int64_t shortest = 0, median = 0, p95 = 0, longest = 0;
  double mean = 0;
  // In ascending order, without gaps between the shortest and the longest row:
  // a bin per length up to 16 lengths, then bins whose width grows with the
  // length (16 per doubling, wider if there would be more than kMostBins).
  std::vector<LengthBin> bins;
};

// All zero for a source without rows.
LengthSummary Summarize(const data::Source& rows);

// A data set without its tokens or pixels: the lengths of its samples, four
// bytes each. Its batches have only counts, so that the loaders of core/data
// make training batches from it in the order and with the padding of a run.
class CountedRows : public data::Source {
 public:
  // The counts of `source`, cut at `max_length` as the loaders do.
  CountedRows(const data::Source& source, int64_t max_length);
  // Rows of these lengths; for tests.
  explicit CountedRows(std::vector<int32_t> lengths);

  int64_t size() const override { return std::ssize(lengths_); }
  int64_t length(int64_t index) const override { return lengths_[index]; }
  int64_t sequences() const override { return sequences_; }
  int64_t tokens(int64_t index) const override {
    return tokens_.empty() ? length(index) : tokens_[index];
  }
  // Fills in rows, length and tokens.
  absl::StatusOr<data::Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const data::Collation& collation) const override;
  std::string hash() const override { return ""; }
  // Rows, tokens and labels are those of these rows. Truncated and dropped rows
  // are those of all files read, even if these rows are a part of them (a
  // split, a limit).
  const data::DatasetStats& stats() const override { return stats_; }
  // Shares of all rows of the files that were read, 0 to 1.
  double cut_share() const { return cut_share_; }
  double dropped_share() const { return dropped_share_; }

  // For a split, whose whole the training rows report.
  void LeaveOutLosses() {
    stats_.truncated_rows = stats_.dropped_rows = 0;
    cut_share_ = dropped_share_ = 0;
  }

  // Rows are padded to at most this many tokens; a loader's max_length.
  void set_max_length(int64_t max_length) { max_length_ = max_length; }

 private:
  std::vector<int32_t> lengths_;
  std::vector<int32_t> tokens_;  // of samples of several sequences
  data::DatasetStats stats_;
  int64_t sequences_ = 1;
  double cut_share_ = 0, dropped_share_ = 0;
  int64_t max_length_;
};

// The shape of a micro-batch, with padding.
struct BatchShape {
  int64_t rows = 0;
  int64_t length = 0;  // tokens per row; 1 for images
  auto operator<=>(const BatchShape&) const = default;
};

// The micro-batches of one pass over a data set.
struct Epoch {
  int64_t steps = 0;  // optimizer steps; 0 for an evaluation
  int64_t tokens = 0;
  int64_t padded_tokens = 0;
  std::map<BatchShape, int64_t> batches;  // number of batches of this shape

  double padding_share() const;
};

// The first epoch of training as data::Loader makes it. Other epochs differ
// only in their order.
Epoch CountEpoch(CountedRows rows, const data::LoaderOptions& options);

// A whole evaluation of `rows` in the batches of data::EvalLoader.
Epoch CountEvaluation(const data::BatchShapes& shapes, CountedRows rows,
                      const CountedRows& train, int64_t micro_batch_rows,
                      int64_t max_length);

// One way to make batches from a job's rows.
struct Sampling {
  std::string name;     // as PlanSampling.name
  bool chosen = false;  // the job's choice
  std::string patch;    // of job.json, to select it
  data::LoaderOptions options;
};

// mpsd's ways for the job's task, including the job's own; `own` are the
// options of the job itself.
std::vector<Sampling> Samplings(const spec::TrainSpec& spec,
                                const data::LoaderOptions& own);

}  // namespace mpsd::plan
