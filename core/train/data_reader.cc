// SPDX-License-Identifier: Apache-2.0
#include "core/train/data_reader.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/data/order.h"
#include "core/data/source.h"

namespace mpsd::train {
namespace {

using SourcePtr = std::unique_ptr<data::Source>;

void Limit(SourcePtr& source, const std::optional<int64_t>& count) {
  if (source == nullptr || !count || *count >= source->size()) return;
  source = std::make_unique<data::Subset>(std::move(source),
                                          data::PlainOrder(*count));
}

absl::Status Split(double share, uint64_t seed, TaskData& data) {
  ASSIGN_OR_RETURN(auto split,
                   data::SplitForValidation(data.train->size(), share, seed));
  const std::shared_ptr<const data::Source> all = std::move(data.train);
  data.train = std::make_unique<data::Subset>(all, std::move(split.train));
  data.eval = std::make_unique<data::Subset>(all, std::move(split.validation));
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

namespace {

// How often a waiting Get forwards the reader's progress.
constexpr std::chrono::milliseconds kReportEvery(100);

}  // namespace

DataReader::DataReader(TaskPipeline& pipeline, Observer& observer,
                       std::string model_folder, spec::ModelConfig config)
    : to_(observer),
      read_(std::async(std::launch::async, [this, &pipeline = pipeline,
                                            folder = std::move(model_folder),
                                            own = std::move(config)]() mutable {
        data_.emplace(pipeline.LoadData(folder, own, *this));
      })) {}

void DataReader::OnStage(const std::string& stage, double fraction) {
  absl::MutexLock lock(&mutex_);
  // Only a stage's latest progress is reported, which keeps the queue short.
  if (!waiting_.empty() && !waiting_.back().is_warning &&
      waiting_.back().text == stage) {
    waiting_.back().fraction = fraction;
  } else {
    waiting_.push_back({false, stage, fraction});
  }
}

void DataReader::TellWarning(const std::string& text) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({true, text, 0});
}

void DataReader::Report() {
  // The observer is called without the lock: it may block, and the other thread
  // must not wait for it.
  std::deque<RelayedCall> all;
  {
    absl::MutexLock lock(&mutex_);
    all.swap(waiting_);
  }
  for (const RelayedCall& saying : all) {
    if (saying.is_warning) {
      to_.OnWarning(saying.text);
    } else {
      to_.OnStage(saying.text, saying.fraction);
    }
  }
}

bool DataReader::done() const {
  return read_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

absl::StatusOr<TaskData> DataReader::Get() {
  while (read_.wait_for(kReportEvery) != std::future_status::ready) Report();
  Report();
  read_.get();
  base::Check(data_.has_value(), "Get is called once");
  return *std::exchange(data_, std::nullopt);
}

}  // namespace mpsd::train
