// SPDX-License-Identifier: Apache-2.0
#include "core/data/loader.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/data/order.h"

namespace mpsd::data {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

Rows OneEach(const std::vector<int64_t>& order) {
  Rows rows;
  rows.reserve(order.size());
  for (int64_t index : order) rows.push_back({index});
  return rows;
}

Rows Slice(const Rows& rows, int64_t begin, int64_t count) {
  base::CheckAtMost(begin, rows.size(), "the begin of a slice and its rows");
  const int64_t end =
      std::min<int64_t>(begin + count, static_cast<int64_t>(rows.size()));
  return Rows(rows.begin() + begin, rows.begin() + end);
}

}  // namespace

Loader::Loader(const Source& source, LoaderOptions options)
    : source_(source), options_(options), rows_(RowsOfEpoch(0)) {}

int64_t Loader::steps_per_epoch() const {
  const int64_t batches =
      CeilDivide(static_cast<int64_t>(rows_.size()), options_.batch_size);
  return CeilDivide(batches, options_.gradient_accumulation_steps);
}

Loader::Rows Loader::RowsOfEpoch(int64_t epoch) const {
  base::CheckLess(0, source_.size(), "samples of a loader");
  base::CheckLess(0, options_.batch_size, "batch_size");
  base::CheckLess(0, options_.gradient_accumulation_steps,
                  "gradient_accumulation_steps");
  base::CheckLess(0, options_.max_length, "max_length");
  const int64_t count = source_.size();
  const std::vector<int64_t> order =
      options_.shuffle ? ShuffledOrder(count, options_.seed, epoch)
                       : PlainOrder(count);
  if (!options_.packing) {
    return OneEach(options_.group_by_length
                       ? GroupByLength(order, Lengths(), rows_per_step())
                       : order);
  }
  // The order decides which samples of equal length share a row. The rows come
  // out with the longest samples first, so they are shuffled again.
  Rows packed = PackBestFit(Lengths(), order, options_.max_length);
  if (!options_.shuffle) return packed;
  Rows shuffled;
  const auto row_order =
      ShuffledOrder(static_cast<int64_t>(packed.size()), options_.seed, epoch);
  for (int64_t row : row_order) shuffled.push_back(std::move(packed[row]));
  return shuffled;
}

std::vector<int64_t> Loader::Lengths() const {
  std::vector<int64_t> lengths;
  lengths.reserve(source_.size());
  for (int64_t i = 0; i < source_.size(); ++i) {
    lengths.push_back(std::min(source_.length(i), options_.max_length));
  }
  return lengths;
}

Loader::Rows Loader::RowsOfStep() const {
  Rows rows =
      Slice(rows_, cursor_.step_in_epoch * rows_per_step(), rows_per_step());
  if (options_.sort_steps) {
    std::stable_sort(rows.begin(), rows.end(),
                     [this](const auto& a, const auto& b) {
                       return LengthOf(a) > LengthOf(b);
                     });
  }
  if (!options_.padding_free || options_.packing) return rows;
  // Fewer rows do not always mean fewer cells: the micro-batches change too,
  // and with them the length to which each is padded.
  Rows fewer = SideBySide(rows);
  return PaddedCells(fewer) < PaddedCells(rows) ? fewer : rows;
}

int64_t Loader::LengthOf(const std::vector<int64_t>& row) const {
  int64_t sum = 0;
  for (int64_t index : row) {
    sum += std::min(source_.length(index), options_.max_length);
  }
  return std::min(sum, options_.max_length);
}

int64_t Loader::PaddedLengthOf(const Rows& rows) const {
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : rows) {
    longest = std::max(longest, LengthOf(row));
  }
  return PaddedLength(longest, options_.max_length, options_.padding);
}

// Packs rows of one sample each.
Loader::Rows Loader::SideBySide(const Rows& rows) const {
  std::vector<int64_t> lengths;
  for (const std::vector<int64_t>& row : rows) {
    base::CheckEqual(row.size(), 1, "samples of a row to be packed");
    lengths.push_back(LengthOf(row));
  }
  Rows packed =
      PackBestFit(lengths, PlainOrder(static_cast<int64_t>(rows.size())),
                  PaddedLengthOf(rows));
  for (std::vector<int64_t>& row : packed) {
    for (int64_t& position : row) position = rows[position].front();
  }
  return packed;
}

// Divides the step into micro-batches of batch_size rows; the last has the
// remaining rows. With padding_free the number of rows changes from step to
// step. On a backend that compiles a graph per shape, the rest is therefore
// divided into batch_size / 2, / 4 … rows: only log2(batch_size) row counts
// occur, which bounds the graphs that MPS caches.
std::vector<Loader::Rows> Loader::MicroBatches(const Rows& step) const {
  const bool halves =
      options_.padding_free && options_.padding == Padding::kBuckets;
  std::vector<Rows> batches;
  const auto count = static_cast<int64_t>(step.size());
  for (int64_t at = 0, size = options_.batch_size; at < count; at += size) {
    while (halves && size > count - at) size /= 2;
    batches.push_back(Slice(step, at, size));
  }
  return batches;
}

// Tokens of the rows' micro-batches, padding included.
int64_t Loader::PaddedCells(const Rows& rows) const {
  int64_t cells = 0;
  for (const Rows& batch : MicroBatches(rows)) {
    cells += static_cast<int64_t>(batch.size()) * PaddedLengthOf(batch);
  }
  return cells;
}

absl::StatusOr<std::vector<Batch>> Loader::NextStep() {
  if (rows_epoch_ != cursor_.epoch) {
    rows_ = RowsOfEpoch(cursor_.epoch);
    rows_epoch_ = cursor_.epoch;
  }
  const Rows step = RowsOfStep();
  base::Check(!step.empty(), "a step has rows");
  Collation collation{.packed = options_.packing,
                      .training = true,
                      .seed = options_.seed,
                      .epoch = cursor_.epoch,
                      .padding = options_.padding,
                      .page_locked = options_.page_locked};
  for (const std::vector<int64_t>& row : step) {
    if (row.size() > 1) collation.packed = true;
  }
  std::vector<Batch> batches;
  for (const Rows& rows : MicroBatches(step)) {
    ASSIGN_OR_RETURN(auto batch, source_.Collate(rows, collation));
    batches.push_back(std::move(batch));
  }
  // The cursor moves last: after an error the same step is tried again.
  Seek({cursor_.epoch, cursor_.step_in_epoch + 1});
  return batches;
}

void Loader::Seek(const Cursor& cursor) {
  base::Check(cursor.epoch >= 0 && cursor.step_in_epoch >= 0,
              "a cursor counts from 0");
  cursor_ = cursor;
  if (cursor_.step_in_epoch >= steps_per_epoch()) {
    cursor_ = {cursor.epoch + 1, 0};
  }
}

double Loader::epoch_fraction() const {
  return static_cast<double>(cursor_.epoch) +
         static_cast<double>(cursor_.step_in_epoch) /
             static_cast<double>(steps_per_epoch());
}

EvalLoader::EvalLoader(const Source& source, int64_t batch_size,
                       Padding padding, std::optional<TokenLimit> limit)
    : source_(source), padding_(padding) {
  base::CheckLess(0, batch_size, "batch_size of an evaluation");
  int64_t rows = 0, longest = 0;
  for (int64_t i = 0; i < source.size(); ++i) {
    bool full = rows == batch_size;
    if (limit) {
      const int64_t length = std::min(source.length(i), limit->max_length);
      const int64_t padded =
          PaddedLength(std::max(longest, length), limit->max_length, padding);
      full = full || (rows + 1) * padded > limit->tokens;
      // The row that does not fit begins the next micro-batch.
      longest = full ? length : std::max(longest, length);
    }
    if (full && rows > 0) {
      ends_.push_back(i);
      rows = 0;
    }
    ++rows;
  }
  if (rows > 0) ends_.push_back(source.size());
}

absl::StatusOr<Batch> EvalLoader::Load(int64_t index) const {
  base::CheckIndex(index, count(), "a micro-batch of an evaluation");
  Rows rows;
  for (int64_t i = index == 0 ? 0 : ends_[index - 1]; i < ends_[index]; ++i) {
    rows.push_back({i});
  }
  return source_.Collate(rows, {.padding = padding_});
}

Prefetcher::Prefetcher(const Source& source, LoaderOptions options)
    : loader_(source, options), steps_per_epoch_(loader_.steps_per_epoch()) {}

Prefetcher::~Prefetcher() { Stop(); }

absl::StatusOr<std::vector<Batch>> Prefetcher::NextStep() {
  // Started by the first step, not by the constructor: a resumed run seeks
  // first, and would wait for a step that is never used.
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  std::optional<Step> step;
  {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return ahead_.has_value();
    };
    mutex_.Await(absl::Condition(&ready));
    step.swap(ahead_);
  }
  base::Check(step.has_value(), "the thread leaves a step");
  // The caller's position in the data; loader_ may be ahead already.
  cursor_ = step->after;
  if (!step->batches.ok()) Stop();  // the thread ended after the error
  return std::move(step->batches);
}

void Prefetcher::Run() {
  while (true) {
    Step step{loader_.NextStep(), {}};
    // Read here, because only this thread may use loader_ while it runs.
    step.after = loader_.cursor();
    const bool failed = !step.batches.ok();
    // The step above is made before the thread waits for room: while one step
    // waits to be taken, the next is made.
    absl::MutexLock lock(&mutex_);
    const auto free = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stop_ || !ahead_.has_value();
    };
    mutex_.Await(absl::Condition(&free));
    if (stop_) return;
    base::Check(!ahead_.has_value(), "one step is ahead at most");
    ahead_ = std::move(step);
    if (failed) return;
  }
}

void Prefetcher::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  // Joined without the mutex, which the thread locks before it reads stop_.
  thread_.join();
  absl::MutexLock lock(&mutex_);
  stop_ = false;
  ahead_.reset();
  // The loader is ahead of the steps taken: seek back to them.
  loader_.Seek(cursor_);
}

void Prefetcher::Seek(const Cursor& cursor) {
  Stop();
  loader_.Seek(cursor);
  cursor_ = loader_.cursor();
}

double Prefetcher::epoch_fraction() const {
  return static_cast<double>(cursor_.epoch) +
         static_cast<double>(cursor_.step_in_epoch) /
             static_cast<double>(steps_per_epoch_);
}

}  // namespace mpsd::data
