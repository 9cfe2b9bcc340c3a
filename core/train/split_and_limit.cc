// SPDX-License-Identifier: Apache-2.0
#include "core/train/split_and_limit.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/data/split.h"

namespace mpsd::train {
namespace {

using SourcePtr = std::unique_ptr<data::Source>;

std::vector<int64_t> AllOf(const data::Source& source) {
  std::vector<int64_t> indices(source.size());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

void Limit(SourcePtr& source, const std::optional<int64_t>& count) {
  if (source == nullptr || !count || *count >= source->size()) return;
  std::vector<int64_t> first = data::FirstIndices(AllOf(*source), *count);
  source = std::make_unique<data::Subset>(std::move(source), std::move(first));
}

absl::Status Split(double share, uint64_t seed, TaskData& data) {
  auto split = data::SplitForValidation(data.train->size(), share, seed);
  if (!split.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dataset.validation_split: ", std::string(split.status().message())));
  }
  const std::shared_ptr<const data::Source> all = std::move(data.train);
  data.train = std::make_unique<data::Subset>(all, std::move(split->train));
  data.eval = std::make_unique<data::Subset>(all, std::move(split->validation));
  return absl::OkStatus();
}

}  // namespace

absl::Status SplitAndLimit(const spec::TrainSpec& spec, TaskData& data) {
  base::Check(data.train != nullptr, "there are training data");
  const spec::DatasetSpec& d = spec.dataset;
  if (data.eval == nullptr && d.validation_split > 0) {
    RETURN_IF_ERROR(Split(d.validation_split,
                          static_cast<uint64_t>(spec.training.seed), data));
  }
  Limit(data.train, d.max_train_samples);
  Limit(data.eval, d.max_eval_samples);
  Limit(data.predict, d.max_predict_samples);
  return absl::OkStatus();
}

}  // namespace mpsd::train
