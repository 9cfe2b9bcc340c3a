// SPDX-License-Identifier: Apache-2.0
#include "core/plan/needs.h"

#include "core/backend/traits.h"
#include "gtest/gtest.h"
#include "tests/core/plan/jobs.h"

namespace mpsd::plan {
namespace {

const backend::Traits& Mps() {
  return backend::TraitsOf(backend::Choice::kMps);
}

TEST(Needs, ShortRowsNeedLessThanMaxLength) {
  const CountedRows rows = RowsUpTo(200);
  const MemoryNeed need =
      MemoryOf(LoraJob(), HalfBillion(), Mps(), {.train = &rows});
  EXPECT_EQ(need.longest_row, 256);  // padded
  EXPECT_LT(need.parts.total_bytes, need.bytes_at_max_length);
  spec::TrainSpec exact = LoraJob();
  exact.training.max_length = 256;
  EXPECT_EQ(need.parts.total_bytes,
            spec::EstimateMemory(exact, HalfBillion(), Mps()).total_bytes);
}

TEST(Needs, LongRowsNeedWhatMaxLengthDoes) {
  const CountedRows rows = RowsUpTo(1024);
  const MemoryNeed need =
      MemoryOf(LoraJob(), HalfBillion(), Mps(), {.train = &rows});
  EXPECT_EQ(need.parts.total_bytes, need.bytes_at_max_length);
}

TEST(Needs, PackedRowsAreFull) {
  const CountedRows rows = RowsUpTo(200);
  spec::TrainSpec spec = LoraJob();
  spec.training.packing = true;
  EXPECT_EQ(MemoryOf(spec, HalfBillion(), Mps(), {.train = &rows}).longest_row,
            1024);
}

// An evaluation's rows may be the longer ones.
TEST(Needs, AnEvaluationHasItsOwnLongestRows) {
  const CountedRows train = RowsUpTo(64), eval = RowsUpTo(1024);
  spec::TrainSpec spec = LoraJob();
  spec.training.per_device_eval_batch_size = 64;
  const backend::Traits& cuda = backend::TraitsOf(backend::Choice::kCuda);
  const MemoryNeed without =
      MemoryOf(spec, HalfBillion(), cuda, {.train = &train});
  spec.dataset.eval = {"eval.jsonl"};
  const MemoryNeed with =
      MemoryOf(spec, HalfBillion(), cuda, {.train = &train, .eval = &eval});
  EXPECT_EQ(with.parts.activations_bytes, without.parts.activations_bytes);
  EXPECT_GT(with.parts.total_bytes, without.parts.total_bytes);
  EXPECT_EQ(with.parts.total_bytes,
            with.parts.base_weights_bytes + with.parts.trainable_bytes +
                with.parts.inputs_bytes + with.parts.evaluation_bytes);
}

TEST(Needs, TheTrainersMicroBatchIsTheLargestThatFits) {
  const CountedRows rows = RowsUpTo(1024);
  spec::TrainSpec spec = LoraJob();
  EXPECT_EQ(WithMicroBatch(spec, HalfBillion(), Mps(), {.train = &rows}, 1),
            spec);
  spec.training.auto_find_batch_size = true;
  const auto rows_at = [&](int64_t limit) {
    return WithMicroBatch(spec, HalfBillion(), Mps(), {.train = &rows}, limit)
        .training;
  };
  EXPECT_EQ(rows_at(0).per_device_train_batch_size, 8);
  const int64_t all =
      MemoryOf(spec, HalfBillion(), Mps(), {.train = &rows}).parts.total_bytes;
  EXPECT_EQ(rows_at(all).per_device_train_batch_size, 8);
  EXPECT_EQ(rows_at(all - 1).per_device_train_batch_size, 4);
  EXPECT_EQ(rows_at(all - 1).gradient_accumulation_steps, 2);
  EXPECT_FALSE(rows_at(all - 1).gradient_checkpointing);
  // Where nothing fits: single rows, recomputed.
  EXPECT_EQ(rows_at(1).per_device_train_batch_size, 1);
  EXPECT_EQ(rows_at(1).recompute(), spec::Recompute::kFull);
}

// MPS computes 32,766 tokens at a time rightly.
TEST(Needs, TheTrainersMicroBatchStaysWithinTheDevicesSums) {
  const CountedRows rows = RowsUpTo(8192);
  spec::TrainSpec spec = LoraJob();
  spec.training.max_length = 8192;
  spec.training.auto_find_batch_size = true;
  EXPECT_EQ(WithMicroBatch(spec, HalfBillion(), Mps(), {.train = &rows}, 0)
                .training.per_device_train_batch_size,
            2);
}

TEST(Needs, CheckpointsHoldValuesAndMoments) {
  spec::TrainSpec spec = LoraJob();
  const DiskNeed need = DiskOf(spec, HalfBillion(), 7);
  const int64_t trained = spec::TrainableParameterCount(spec, HalfBillion());
  EXPECT_EQ(need.checkpoint_bytes, 12 * trained);
  EXPECT_EQ(need.checkpoints_kept, 7);
  EXPECT_EQ(need.result_bytes, 4 * trained);
  EXPECT_EQ(need.total_bytes(), 88 * trained);
}

TEST(Needs, TheLimitKeepsTheNewOneBesideTheOld) {
  spec::TrainSpec spec = LoraJob();
  spec.training.save_total_limit = 2;
  EXPECT_EQ(DiskOf(spec, HalfBillion(), 7).checkpoints_kept, 3);
  EXPECT_EQ(DiskOf(spec, HalfBillion(), 1).checkpoints_kept, 1);
  spec.training.load_best_model_at_end = true;
  EXPECT_EQ(DiskOf(spec, HalfBillion(), 7).checkpoints_kept, 4);
}

TEST(Needs, AWholeModelIsSavedInItsOwnDtype) {
  spec::TrainSpec spec = LoraJob();
  spec.fine_tune_type = spec::FineTuneType::kFull;
  const int64_t all = spec::ParameterCount(HalfBillion());
  EXPECT_EQ(DiskOf(spec, HalfBillion(), 1).result_bytes, 2 * all);
  spec.training.bf16 = false;
  EXPECT_EQ(DiskOf(spec, HalfBillion(), 1).result_bytes, 4 * all);
}

}  // namespace
}  // namespace mpsd::plan
