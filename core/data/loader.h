// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/data/batch.h"
#include "core/data/source.h"

namespace mpsd::data {

struct LoaderOptions {
  int64_t batch_size = 8;  // rows per micro-batch
  int64_t gradient_accumulation_steps = 1;
  int64_t max_length = 1024;  // tokens per packed row
  bool packing = false;
  uint64_t seed = 42;
  bool shuffle = true;
  bool group_by_length = false;  // see GroupByLength; not with packing
  // Sorts the rows of an optimizer step from long to short: less padding in a
  // step of several micro-batches, with the same gradient.
  bool sort_steps = false;
  // Concatenates the samples of an optimizer step in rows as long as the step's
  // longest sample, if this leaves less padding; never makes more rows. Not
  // with packing.
  bool padding_free = false;
  Padding padding = Padding::kBuckets;
  bool page_locked = false;  // see Collation
};

// A run's position in its data: before the step with these numbers.
struct Cursor {
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  bool operator==(const Cursor&) const = default;
};

// An endless sequence of micro-batches in training order, epoch after epoch.
// The order of each epoch depends only on the options, the number of samples
// (with packing: and their lengths) and the epoch's number. With packing the
// samples are packed anew for each epoch, always into the same number of rows.
// One thread at a time.
class Loader {
 public:
  // `source` must outlive the loader and have at least one sample; the numbers
  // of `options` must be positive.
  Loader(const Source& source, LoaderOptions options);

  // Optimizer steps: ceil(ceil(rows / batch_size) /
  // gradient_accumulation_steps), as Transformers counts them. The last step of
  // an epoch has the remaining micro-batches, the last micro-batch the
  // remaining rows.
  int64_t steps_per_epoch() const;

  // The micro-batches of one optimizer step; advances the cursor. Errors are
  // the source's.
  absl::StatusOr<std::vector<Batch>> NextStep();

  // After Seek to the cursor of an equal loader both loaders return equal
  // steps. A cursor after an epoch's last step means the next epoch's first
  // step.
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
  std::vector<int64_t> Lengths() const;  // of the samples, after truncation

  int64_t rows_per_step() const {
    return options_.batch_size * options_.gradient_accumulation_steps;
  }

  const Source& source_;
  const LoaderOptions options_;
  Cursor cursor_;
  int64_t rows_epoch_ = 0;  // whose rows are in rows_
  Rows rows_;
};

// The most tokens that a micro-batch of several rows may have, including
// padding, with rows cut at max_length. A single row may have more.
struct TokenLimit {
  int64_t tokens, max_length;
};

// The micro-batches of an evaluation or a prediction: every sample once, in
// order, unpacked, unaugmented. Load makes one batch at a time.
class EvalLoader {
 public:
  // `source` must outlive this object; batch_size > 0.
  EvalLoader(const Source& source, int64_t batch_size,
             Padding padding = Padding::kBuckets,
             std::optional<TokenLimit> limit = std::nullopt);

  int64_t count() const {  // micro-batches
    return static_cast<int64_t>(ends_.size());
  }
  // 0 <= index < count(). Errors are the source's.
  absl::StatusOr<Batch> Load(int64_t index) const;

 private:
  const Source& source_;
  const Padding padding_;
  std::vector<int64_t> ends_;  // each micro-batch's end in the source
};

// A Loader whose next steps are made on a separate thread while a step is
// trained: the same batches in the same order. At most one step waits to be
// taken while the thread makes the next. Call from one thread at a time, like
// Loader; the source is called on the prefetching thread.
class Prefetcher {
 public:
  // Like Loader's constructor.
  Prefetcher(const Source& source, LoaderOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Like Loader's methods. They count the steps that NextStep returned, not
  // those made ahead. After an error the next call of NextStep tries the same
  // step again.
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  absl::StatusOr<std::vector<Batch>> NextStep();
  Cursor cursor() const { return cursor_; }
  void Seek(const Cursor& cursor);
  double epoch_fraction() const;

 private:
  struct Step {
    absl::StatusOr<std::vector<Batch>> batches;
    Cursor after;
  };

  void Run();
  void Stop();

  Loader loader_;  // used only by thread_ while it runs
  const int64_t steps_per_epoch_;
  Cursor cursor_;
  absl::Mutex mutex_;
  std::optional<Step> ahead_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mpsd::data
