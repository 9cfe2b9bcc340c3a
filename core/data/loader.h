// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_LOADER_H_
#define MPSD_CORE_DATA_LOADER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/data/source.h"

namespace mpsd::data {

struct LoaderOptions {
  int64_t batch_size = 8;  // rows of a micro-batch
  int64_t gradient_accumulation_steps = 1;
  int64_t max_length = 1024;  // tokens of a packed row
  bool packing = false;
  uint64_t seed = 42;
  bool shuffle = true;
  bool group_by_length = false;  // see GroupByLength; not with packing
  // The rows of an optimizer step from long to short: less padding in a step of
  // several micro-batches, with the same gradient.
  bool sort_steps = false;
  // Lays the samples of an optimizer step side by side in rows as long as the
  // step's longest sample, where this leaves less padding; never makes more
  // rows. Not with packing.
  bool padding_free = false;
  Padding padding = Padding::kBuckets;
};

// A run's place in its data: before the step with these numbers.
struct Cursor {
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  bool operator==(const Cursor&) const = default;
};

// Micro-batches in the order of training, without end: epoch after epoch, each
// epoch in its own order, which only the options, the number of samples (with
// packing: and their lengths) and the epoch's number decide. With packing the
// samples are packed anew for each epoch, always into the same number of rows.
// One thread at a time.
class Loader {
 public:
  // `source` must outlive the loader and hold one sample at least; the numbers
  // of `options` must be positive.
  Loader(const Source& source, LoaderOptions options);

  // Optimizer steps: ceil(ceil(rows / batch_size) /
  // gradient_accumulation_steps), as Transformers counts them. The last step of
  // an epoch has the micro-batches that are left, the last micro-batch the rows
  // that are left.
  int64_t steps_per_epoch() const;

  // The micro-batches of one optimizer step; advances the cursor. An error is
  // the source's.
  absl::StatusOr<std::vector<Batch>> NextStep();

  // After Seek to the cursor of an equal loader both loaders give equal steps.
  // A cursor behind an epoch's last step means the next epoch's first step.
  Cursor cursor() const { return cursor_; }
  void Seek(const Cursor& cursor);

  // Finished epochs plus the finished share of the current epoch.
  double epoch_fraction() const;

 private:
  using Rows = std::vector<std::vector<int64_t>>;  // sample indices per row
  Rows RowsOfEpoch(int64_t epoch) const;
  Rows RowsOfStep() const;
  Rows SideBySide(const Rows& rows) const;
  std::vector<Rows> MicroBatches(const Rows& step) const;
  int64_t PaddedCells(const Rows& rows) const;
  int64_t PaddedLengthOf(const Rows& rows) const;  // from the longest row
  int64_t LengthOf(const std::vector<int64_t>& row) const;
  std::vector<int64_t> Lengths() const;  // the samples', as cut

  int64_t rows_per_step() const {
    return options_.batch_size * options_.gradient_accumulation_steps;
  }

  const Source& source_;
  const LoaderOptions options_;
  Cursor cursor_;
  int64_t rows_epoch_ = 0;  // whose rows are in rows_
  Rows rows_;
};

// The most tokens that a micro-batch of several rows may have, padding
// included, with rows cut at max_length. A single row may have more.
struct TokenLimit {
  int64_t tokens, max_length;
};

// The micro-batches of an evaluation or a prediction: every sample once, in
// order, unpacked, unaugmented. A batch is made when Load asks for it.
class EvalLoader {
 public:
  // `source` must outlive it; batch_size > 0.
  EvalLoader(const Source& source, int64_t batch_size,
             Padding padding = Padding::kBuckets,
             std::optional<TokenLimit> limit = std::nullopt);

  int64_t count() const {  // micro-batches
    return static_cast<int64_t>(ends_.size());
  }
  // 0 <= index < count(). An error is the source's.
  absl::StatusOr<Batch> Load(int64_t index) const;

 private:
  const Source& source_;
  const Padding padding_;
  std::vector<int64_t> ends_;  // each micro-batch's end in the source
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_LOADER_H_
