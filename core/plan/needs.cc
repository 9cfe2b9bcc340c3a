// SPDX-License-Identifier: Apache-2.0
#include "core/plan/needs.h"

#include <algorithm>
#include <utility>

#include "core/data/batch_shapes.h"
#include "core/spec/recompute.h"

namespace mpsd::plan {
namespace {

// The estimate with rows of at most `length` tokens.
spec::MemoryEstimate EstimateAt(spec::TrainSpec spec,
                                const spec::ModelConfig& model,
                                const backend::Traits& traits, int64_t length,
                                bool evaluates) {
  spec.training.max_length = std::min(spec.training.max_length, length);
  if (!evaluates) {
    spec.dataset.eval.clear();
    spec.dataset.validation_split = 0;
  }
  return spec::EstimateMemory(spec, model, traits);
}

}  // namespace

MemoryNeed MemoryOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                    const backend::Traits& traits, const JobRows& rows) {
  const data::BatchShapes shapes(spec, model, traits, "");
  MemoryNeed need;
  need.longest_row = shapes.LongestRow(*rows.train);
  const bool evaluates = rows.eval != nullptr;
  need.bytes_at_max_length =
      EstimateAt(spec, model, traits, spec.training.max_length, evaluates)
          .total_bytes;
  need.parts = EstimateAt(spec, model, traits, need.longest_row, false);
  if (!evaluates) return need;
  // Training and evaluation have separate longest rows.
  const int64_t longest = shapes.LongestRow(*rows.eval);
  need.parts.evaluation_bytes =
      EstimateAt(spec, model, traits, longest, true).evaluation_bytes;
  need.parts.Add();
  return need;
}

spec::TrainSpec WithMicroBatch(spec::TrainSpec spec,
                               const spec::ModelConfig& model,
                               const backend::Traits& traits,
                               const JobRows& rows, int64_t limit_bytes) {
  spec::TrainingSpec& t = spec.training;
  if (!t.auto_find_batch_size) return spec;
  const int64_t batch =
      t.per_device_train_batch_size * t.gradient_accumulation_steps;
  const spec::Recompute demanded = t.recompute();
  for (const spec::Recompute recompute :
       {spec::Recompute::kNone, spec::Recompute::kSelective,
        spec::Recompute::kFull}) {
    if (recompute < demanded) continue;
    t.set_recompute(recompute);
    for (int64_t size = batch; size > 0; --size) {
      if (batch % size != 0) continue;
      t.per_device_train_batch_size = size;
      t.gradient_accumulation_steps = batch / size;
      const data::BatchShapes shapes(spec, model, traits, "");
      const int64_t row = shapes.LongestRow(*rows.train);
      if (traits.max_sum && size > 1 && size * row > *traits.max_sum) continue;
      const int64_t needed =
          MemoryOf(spec, model, traits, rows).parts.total_bytes;
      if (limit_bytes == 0 || needed <= limit_bytes) return spec;
    }
  }
  return spec;
}

DiskNeed DiskOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                int64_t checkpoints) {
  constexpr int64_t kFloat = 4;
  constexpr int64_t kCopies = 3;  // the value and both moments of AdamW
  const int64_t trained = spec::TrainableParameterCount(spec, model);
  DiskNeed need;
  need.checkpoint_bytes = trained * kFloat * kCopies;
  need.checkpoints_kept = checkpoints;
  if (const auto limit = spec.training.save_total_limit) {
    // A new checkpoint is complete before an old one goes; the best stays too.
    const int64_t best = spec.training.load_best_model_at_end ? 1 : 0;
    need.checkpoints_kept = std::min(checkpoints, *limit + 1 + best);
  }
  // An adapter is saved in fp32, a model in the dtype of its frozen weights.
  const bool whole = spec.fine_tune_type != spec::FineTuneType::kLora;
  need.result_bytes = whole ? spec::ParameterCount(model) *
                                  (spec.training.bf16 ? kFloat / 2 : kFloat)
                            : trained * kFloat;
  return need;
}

}  // namespace mpsd::plan
