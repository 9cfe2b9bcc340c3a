// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch_shapes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace mpsd::data {

BatchShapes::BatchShapes(const spec::TrainSpec& spec,
                         const spec::ModelConfig& config,
                         const backend::Traits& traits, std::string device)
    : spec_(spec),
      traits_(traits),
      device_(std::move(device)),
      image_tokens_(spec.task == spec::Task::kImageCls
                        ? config.vision.patches() + 1
                        : 0) {}

Padding BatchShapes::padding() const {
  if (traits_.compiles_each_shape) return Padding::kBuckets;
  return traits_.lengths_by_eight ? Padding::kMultipleOfEight
                                  : Padding::kLongest;
}

int64_t BatchShapes::step_rows() const {
  return spec_.training.per_device_train_batch_size *
         spec_.training.gradient_accumulation_steps;
}

int64_t BatchShapes::TotalSteps(int64_t steps_per_epoch) const {
  const spec::TrainingSpec& t = spec_.training;
  if (t.max_steps > 0) return t.max_steps;
  return static_cast<int64_t>(
      std::ceil(t.num_train_epochs * static_cast<double>(steps_per_epoch)));
}

int64_t BatchShapes::LongestSample(const Source& source) const {
  int64_t longest = 1;
  for (int64_t i = 0; i < source.size(); ++i) {
    longest = std::max(longest, source.length(i));
  }
  return std::min(longest, spec_.training.max_length);
}

int64_t BatchShapes::LongestRow(const Source& train) const {
  const bool packs = spec_.training.packing && image_tokens_ == 0;
  return packs ? spec_.training.max_length : PaddedLongest(train);
}

int64_t BatchShapes::PaddedLongest(const Source& source) const {
  if (image_tokens_ > 0) return image_tokens_;
  return PaddedLength(LongestSample(source), spec_.training.max_length,
                      padding());
}

absl::Status BatchShapes::CheckTokens(int64_t rows, int64_t row_tokens) const {
  const int64_t most = *traits_.max_sum / spec_.preference.sequences();
  if (rows * row_tokens <= most) return absl::OkStatus();
  if (row_tokens > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.max_length: the longest row has ", row_tokens,
                     " tokens with its padding; the device ", device_,
                     " computes wrong gradients above ", most,
                     " tokens at a time: set max_length to ", most,
                     " at most, which cuts longer rows"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "training.per_device_train_batch_size: ", rows, " rows of up to ",
      row_tokens, " tokens are ", rows * row_tokens, "; the device ", device_,
      " computes wrong gradients above ", most, ": take ", most / row_tokens,
      " rows at most and raise gradient_accumulation_steps instead, or set "
      "auto_find_batch_size"));
}

absl::Status BatchShapes::CheckDeviceLimits(
    const Source& train, std::initializer_list<const Source*> others) const {
  if (!traits_.max_sum) return absl::OkStatus();
  for (const Source* source : others) {
    if (source == nullptr) continue;
    RETURN_IF_ERROR(CheckTokens(1, PaddedLongest(*source)));
  }
  const spec::TrainingSpec& t = spec_.training;
  return CheckTokens(t.auto_find_batch_size ? 1 : t.per_device_train_batch_size,
                     LongestRow(train));
}

LoaderOptions BatchShapes::TrainOptions(int64_t micro_batch_rows) const {
  base::CheckEqual(step_rows() % micro_batch_rows, 0,
                   "rows beyond micro-batches");
  const spec::TrainingSpec& t = spec_.training;
  LoaderOptions options;
  options.batch_size = micro_batch_rows;
  options.gradient_accumulation_steps = step_rows() / micro_batch_rows;
  options.max_length = t.max_length;
  options.packing = t.packing;
  options.seed = static_cast<uint64_t>(t.seed);
  options.shuffle = t.train_sampling_strategy != "sequential";
  options.group_by_length = t.train_sampling_strategy == "group_by_length";
  options.sort_steps = t.auto_find_batch_size;
  options.padding_free = spec_.task == spec::Task::kCausalLm &&
                         !spec_.preference.enabled() &&
                         t.padding_free.value_or(t.auto_find_batch_size);
  options.padding = padding();
  options.page_locked = traits_.memory == backend::MemoryPlace::kOwn;
  return options;
}

EvalLoader BatchShapes::EvalBatches(const Source& source, const Source& train,
                                    int64_t micro_batch_rows) const {
  const int64_t rows = spec_.training.per_device_eval_batch_size;
  if (!traits_.silent_out_of_memory) {
    return EvalLoader(source, rows, padding());
  }
  const int64_t tried = micro_batch_rows * LongestRow(train);
  int64_t tokens = tried;
  if (const auto most = traits_.max_sum) {
    tokens = std::min(tokens, *most / spec_.preference.sequences());
  }
  if (image_tokens_ > 0) {
    const int64_t most = std::max<int64_t>(tokens / image_tokens_, 1);
    return EvalLoader(source, std::min(rows, most), padding());
  }
  return EvalLoader(source, rows, padding(),
                    TokenLimit{tokens, spec_.training.max_length});
}

}  // namespace mpsd::data
