// SPDX-License-Identifier: Apache-2.0
#include "core/data/loader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "core/data/order.h"
#include "core/data/packing.h"

namespace mpsd::data {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<int64_t>>;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

Rows OneEach(const std::vector<int64_t>& order) {
  Rows rows;
  rows.reserve(order.size());
  for (int64_t index : order) rows.push_back({index});
  return rows;
}

Rows Slice(const Rows& rows, int64_t begin, int64_t count) {
  const int64_t end =
      std::min<int64_t>(begin + count, static_cast<int64_t>(rows.size()));
  return Rows(rows.begin() + begin, rows.begin() + end);
}

}  // namespace

std::string ToJson(const Cursor& cursor) {
  return Json{{"epoch", cursor.epoch}, {"step_in_epoch", cursor.step_in_epoch}}
      .dump();
}

absl::StatusOr<Cursor> CursorFromJson(std::string_view json) {
  const Json object = Json::parse(json.begin(), json.end(), nullptr,
                                  /*allow_exceptions=*/false);
  const auto number = [&object](const char* name) -> int64_t {
    const auto it = object.find(name);
    const bool integer = it != object.end() && it->is_number_integer();
    return integer ? it->get<int64_t>() : -1;
  };
  const Cursor cursor = {number("epoch"), number("step_in_epoch")};
  if (cursor.epoch < 0 || cursor.step_in_epoch < 0) {
    return absl::InvalidArgumentError(
        "data cursor: expected an object with \"epoch\" and \"step_in_epoch\", "
        "integers >= 0");
  }
  return cursor;
}

Loader::Loader(const Dataset& dataset, LoaderOptions options)
    : dataset_(dataset), options_(options), rows_(RowsOfEpoch(0)) {}

int64_t Loader::steps_per_epoch() const {
  const int64_t batches =
      CeilDivide(static_cast<int64_t>(rows_.size()), options_.batch_size);
  return CeilDivide(batches, options_.gradient_accumulation_steps);
}

Loader::Rows Loader::RowsOfEpoch(int64_t epoch) const {
  const int64_t count = static_cast<int64_t>(dataset_.size());
  const std::vector<int64_t> order =
      options_.shuffle ? ShuffledOrder(count, options_.seed, epoch)
                       : PlainOrder(count);
  if (!options_.packing) return OneEach(order);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length =
        static_cast<int64_t>(dataset_.sample(i).input_ids.size());
    lengths.push_back(std::min(length, options_.max_length));
  }
  Rows packed = PackBestFit(lengths, order, options_.max_length);
  if (!options_.shuffle) return packed;
  Rows shuffled;
  const auto row_order =
      ShuffledOrder(static_cast<int64_t>(packed.size()), options_.seed, epoch);
  for (int64_t row : row_order) shuffled.push_back(std::move(packed[row]));
  return shuffled;
}

std::vector<Batch> Loader::NextStep() {
  if (rows_epoch_ != cursor_.epoch) {
    rows_ = RowsOfEpoch(cursor_.epoch);
    rows_epoch_ = cursor_.epoch;
  }
  const int64_t rows_per_step =
      options_.batch_size * options_.gradient_accumulation_steps;
  const Rows step =
      Slice(rows_, cursor_.step_in_epoch * rows_per_step, rows_per_step);
  std::vector<Batch> batches;
  for (int64_t at = 0; at < static_cast<int64_t>(step.size());
       at += options_.batch_size) {
    batches.push_back(MakeBatch(dataset_, Slice(step, at, options_.batch_size),
                                options_.max_length, options_.pad_id,
                                options_.packing));
  }
  Seek({cursor_.epoch, cursor_.step_in_epoch + 1});
  return batches;
}

void Loader::Seek(const Cursor& cursor) {
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

std::vector<Batch> EvalBatches(const Dataset& dataset, int64_t batch_size,
                               int64_t max_length, int32_t pad_id) {
  const Rows rows = OneEach(PlainOrder(static_cast<int64_t>(dataset.size())));
  std::vector<Batch> batches;
  for (int64_t at = 0; at < static_cast<int64_t>(rows.size());
       at += batch_size) {
    batches.push_back(MakeBatch(dataset, Slice(rows, at, batch_size),
                                max_length, pad_id, /*packed=*/false));
  }
  return batches;
}

}  // namespace mpsd::data
