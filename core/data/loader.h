// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_LOADER_H_
#define MPSD_CORE_DATA_LOADER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/data/dataset.h"

namespace mpsd::data {

struct LoaderOptions {
  int64_t batch_size = 8;  // rows of a micro-batch
  int64_t gradient_accumulation_steps = 1;
  int64_t max_length = 1024;
  bool packing = false;
  uint64_t seed = 42;
  bool shuffle = true;
  int32_t pad_id = 0;
};

// Where a run stands in its data: before the step with these numbers.
struct Cursor {
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  bool operator==(const Cursor&) const = default;
};
std::string ToJson(const Cursor& cursor);
// InvalidArgument for anything but what ToJson writes.
absl::StatusOr<Cursor> CursorFromJson(std::string_view json);

// Micro-batches in the order of training, without end: epoch after epoch, each
// in an order of its own that only the options, the data set and the number of
// the epoch decide. With packing the samples are packed anew for each epoch,
// into always as many rows. One thread at a time.
class Loader {
 public:
  // `dataset` must outlive the loader and hold one sample at least; the numbers
  // of `options` must be positive.
  Loader(const Dataset& dataset, LoaderOptions options);

  // Optimizer steps: ceil(ceil(rows / batch_size) /
  // gradient_accumulation_steps), as Transformers counts them. The last step of
  // an epoch has the micro-batches that are left, the last micro-batch the rows
  // that are left.
  int64_t steps_per_epoch() const;

  // The micro-batches of one optimizer step; advances the cursor.
  std::vector<Batch> NextStep();

  // After Seek(cursor()) of an equal loader the steps are equal to the ones
  // that follow there. A step beyond the epoch's last is the next epoch's
  // first.
  Cursor cursor() const { return cursor_; }
  void Seek(const Cursor& cursor);

  // Epochs done, with the share of the current one.
  double epoch_fraction() const;

 private:
  using Rows = std::vector<std::vector<int64_t>>;  // sample indices per row
  Rows RowsOfEpoch(int64_t epoch) const;

  const Dataset& dataset_;
  const LoaderOptions options_;
  Cursor cursor_;
  int64_t rows_epoch_ = 0;  // that rows_ belongs to
  Rows rows_;
};

// Every sample once, in order, unpacked.
std::vector<Batch> EvalBatches(const Dataset& dataset, int64_t batch_size,
                               int64_t max_length, int32_t pad_id);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_LOADER_H_
