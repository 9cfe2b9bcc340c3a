// SPDX-License-Identifier: Apache-2.0
// The part of Trainer::Run that decides how many rows are computed at a time.
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/sha256.h"
#include "core/spec/memory_estimate.h"
#include "core/train/micro_batch.h"
#include "core/train/micro_batch_trial.h"
#include "core/train/trainer.h"

namespace mpsd::train {
namespace {

constexpr char kCacheFile[] = "micro-batches.json";

int64_t LongestSample(const data::Source& source, int64_t max_length) {
  int64_t longest = 1;
  for (int64_t i = 0; i < source.size(); ++i) {
    longest = std::max(longest, source.length(i));
  }
  return std::min(longest, max_length);
}

const char* Suffix(const MicroBatch& choice) {
  switch (choice.recompute) {
    case spec::Recompute::kNone:
      return "";
    case spec::Recompute::kSelective:
      return ", with selective checkpointing";
    case spec::Recompute::kFull:
      break;
  }
  return ", with checkpointing";
}

}  // namespace

data::LoaderOptions Trainer::LoaderOptionsFor(int64_t rows,
                                              int64_t accumulation) const {
  const spec::TrainingSpec& t = spec_.training;
  data::LoaderOptions options;
  options.batch_size = rows;
  options.gradient_accumulation_steps = accumulation;
  options.max_length = t.max_length;
  options.packing = t.packing;
  options.seed = static_cast<uint64_t>(t.seed);
  options.shuffle = t.train_sampling_strategy != "sequential";
  options.group_by_length = t.train_sampling_strategy == "group_by_length";
  options.sort_steps = t.auto_find_batch_size;
  options.padding_free = spec_.task == spec::Task::kCausalLm &&
                         t.padding_free.value_or(t.auto_find_batch_size);
  options.padding = padding();
  return options;
}

int64_t Trainer::batch_rows() const {
  return spec_.training.per_device_train_batch_size *
         spec_.training.gradient_accumulation_steps;
}

int64_t Trainer::LongestRow() const {
  const spec::TrainingSpec& t = spec_.training;
  const bool packs = t.packing && spec_.task != spec::Task::kImageCls;
  return packs ? t.max_length : LongestRowOf(*data_.train);
}

int64_t Trainer::LongestRowOf(const data::Source& source) const {
  const spec::TrainingSpec& t = spec_.training;
  if (spec_.task == spec::Task::kImageCls) return config_.vision.patches() + 1;
  return data::PaddedLength(LongestSample(source, t.max_length), t.max_length,
                            padding());
}

absl::Status Trainer::CheckDeviceLimits() const {
  const spec::TrainingSpec& t = spec_.training;
  const std::optional<int64_t> most = device_->traits().max_sum;
  if (!most) return absl::OkStatus();
  for (const data::Source* source : {data_.eval.get(), data_.predict.get()}) {
    if (source == nullptr) continue;
    absl::Status s = CheckTokens(1, LongestRowOf(*source), *most);
    if (!s.ok()) return s;
  }
  return CheckTokens(t.auto_find_batch_size ? 1 : t.per_device_train_batch_size,
                     LongestRow(), *most);
}

data::EvalLoader Trainer::EvalBatches(const data::Source& source) const {
  const spec::TrainingSpec& t = spec_.training;
  const int64_t rows = t.per_device_eval_batch_size;
  const device::Traits& traits = device_->traits();
  if (!traits.silent_out_of_memory) {
    return data::EvalLoader(source, rows, padding());
  }
  const int64_t tried = micro_batch_rows_ * LongestRow();
  const int64_t tokens = std::min(traits.max_sum.value_or(tried), tried);
  if (spec_.task == spec::Task::kImageCls) {
    const int64_t most = std::max<int64_t>(tokens / LongestRow(), 1);
    return data::EvalLoader(source, std::min(rows, most), padding());
  }
  return data::EvalLoader(source, rows, padding(),
                          data::TokenLimit{tokens, t.max_length});
}

// The key of a cached plan: everything that the cost of a micro-batch depends
// on, and nothing that may differ between runs of equal cost.
std::string Trainer::MicroBatchKey() const {
  spec::TrainSpec essence = spec_;
  essence.name.clear();
  essence.dataset = {};
  essence.training.seed = 0;
  essence.training.learning_rate = 1;
  essence.training.num_train_epochs = 1;
  essence.training.max_steps = -1;
  return base::Sha256Hex(
      absl::StrCat(spec::ToJson(essence), "\n", spec::ParameterCount(config_),
                   " ", config_.hidden_size, " ", config_.num_hidden_layers,
                   " ", config_.vocab_size, "\n",
                   LongestSample(*data_.train, spec_.training.max_length), " ",
                   data_.train->size() < batch_rows() ? data_.train->size() : 0,
                   "\n", device_->name(), " ", device_->description(), "\n",
                   options_.mpsd_version, " ", options_.torch_version));
}

absl::StatusOr<MicroBatchPlan> Trainer::TryMicroBatches() {
  const spec::TrainingSpec& t = spec_.training;
  const auto estimate = [this](const MicroBatch& choice) {
    spec::TrainSpec spec = spec_;
    // The memory of an evaluation does not depend on the choice, unless
    // evaluations are limited to the tokens of a training micro-batch.
    if (!device_->traits().silent_out_of_memory) {
      spec.dataset.eval.clear();
      spec.dataset.validation_split = 0;
    }
    spec.training.per_device_train_batch_size = choice.rows;
    spec.training.gradient_accumulation_steps = batch_rows() / choice.rows;
    spec.training.set_recompute(choice.recompute);
    spec.training.max_length =
        spec_.training.packing
            ? spec_.training.max_length
            : LongestSample(*data_.train, spec_.training.max_length);
    // The network's own config, not that of the file: the head may turn out not
    // to be tied.
    return spec::EstimateMemory(spec, network_->config(), device_->traits())
        .total_bytes;
  };
  MicroBatchTrials trials(trained(), *stepper_, *data_.train,
                          LoaderOptionsFor(1, 1), estimate, options_.attempt);
  MicroBatchSearch search;
  search.batch = batch_rows();
  search.max_rows = search.batch;
  if (const auto most = device_->traits().max_sum) {
    search.max_rows = *most / LongestRow();
  }
  search.limit_bytes = trials.limit_bytes();
  search.resident_bytes = trials.resident_bytes();
  search.demanded = t.recompute();
  search.knows_selective = stepper_->gradient_path() == kExplicitPath;
  search.estimate = estimate;
  return FindMicroBatch(search, [&](const MicroBatch& choice) {
    observer_.OnStage(
        absl::StrCat("trying micro-batches of ", choice.rows, Suffix(choice)),
        0);
    return trials.Measure(choice, search.batch);
  });
}

// A resumed run keeps its first attempt's plan: another split would round its
// sums otherwise. A machine that has tried this job's shape does not try again.
absl::StatusOr<MicroBatchPlan> Trainer::PlanMicroBatches() {
  if (!ckpt::ListCheckpoints(options_.out_dir).empty()) {
    if (auto plan = ReadPlanOfRun(options_.out_dir, batch_rows())) {
      plan->from = "resumed";
      return *std::move(plan);
    }
  }
  const auto file = options_.cache_dir / kCacheFile;
  const std::string key = MicroBatchKey();
  if (auto plan = FindCachedPlan(file, key, batch_rows())) {
    plan->from = "cache";
    return *std::move(plan);
  }
  auto plan = TryMicroBatches();
  if (!plan.ok()) return plan.status();
  // A failure costs the next run a search, nothing else.
  CachePlan(file, key, *plan, batch_rows()).IgnoreError();
  return plan;
}

absl::Status Trainer::ChooseMicroBatch() {
  base::Check(stepper_ != nullptr, "AttachTrainable comes before trials");
  micro_batch_rows_ = spec_.training.per_device_train_batch_size;
  if (spec_.training.auto_find_batch_size) {
    auto plan = PlanMicroBatches();
    if (!plan.ok()) return plan.status();
    Take(*std::move(plan));
  }
  if (data_.eval != nullptr) {
    eval_loader_ = std::make_unique<data::EvalLoader>(EvalBatches(*data_.eval));
  }
  return absl::OkStatus();
}

void Trainer::Take(MicroBatchPlan plan) {
  const MicroBatch& chosen = plan.chosen;
  base::CheckEqual(batch_rows() % chosen.rows, 0, "rows beyond micro-batches");
  micro_batch_rows_ = chosen.rows;
  model::RunOptions options = network_->options();
  options.recompute = chosen.recompute;
  network_->set_options(options);
  loader_ = std::make_unique<data::Prefetcher>(
      *data_.train, LoaderOptionsFor(chosen.rows, batch_rows() / chosen.rows));
  observer_.OnStage(
      absl::StrFormat("micro-batches of %d of %d rows%s (%s)", chosen.rows,
                      batch_rows(), Suffix(chosen), plan.from),
      1);
  manifest_.micro_batch = std::move(plan);
}

}  // namespace mpsd::train
