// SPDX-License-Identifier: Apache-2.0
#include "core/plan/step_cost.h"

#include "core/backend/traits.h"
#include "gtest/gtest.h"
#include "tests/core/plan/jobs.h"

namespace mpsd::plan {
namespace {

const backend::Traits& Mps() {
  return backend::TraitsOf(backend::Choice::kMps);
}

StepCost TrainOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                 BatchShape shape = {8, 512}) {
  return StepCosts(spec, model, Mps()).Train(shape, 1);
}

// 2 operations a weight and token forward, 2 back, of a frozen base: the
// figures of tests/ops hold the rest.
TEST(StepCost, AFrozenBaseTakesFourOperationsAWeightAndToken) {
  const StepCost cost = TrainOf(LoraJob(), HalfBillion());
  const double weights =
      static_cast<double>(spec::ParameterCount(HalfBillion()));
  EXPECT_NEAR(cost.products / (4 * weights * 8 * 512), 1, 0.05);
}

TEST(StepCost, AModelTrainedInFullTakesSix) {
  spec::TrainSpec spec = LoraJob();
  spec.fine_tune_type = spec::FineTuneType::kFull;
  const StepCost cost = TrainOf(spec, HalfBillion());
  const double weights =
      static_cast<double>(spec::ParameterCount(HalfBillion()));
  EXPECT_NEAR(cost.products / (6 * weights * 8 * 512), 1, 0.05);
}

TEST(StepCost, CheckpointingAddsNearlyAForward) {
  spec::TrainSpec spec = LoraJob();
  const spec::ModelConfig model = HalfBillion();
  const double none = TrainOf(spec, model).products;
  spec.training.set_recompute(spec::Recompute::kSelective);
  const double selective = TrainOf(spec, model).products;
  spec.training.set_recompute(spec::Recompute::kFull);
  const double full = TrainOf(spec, model).products;
  EXPECT_LT(none, selective);
  EXPECT_LT(selective, full);
  EXPECT_LT(full, 1.3 * none);
}

TEST(StepCost, OnlyLayersAboveAnAdapterGoBack) {
  spec::TrainSpec spec = LoraJob();
  const double all = TrainOf(spec, HalfBillion()).products;
  spec.lora.layers_to_transform = std::vector<int64_t>{23};
  const double last = TrainOf(spec, HalfBillion()).products;
  EXPECT_LT(last, 0.8 * all);
  spec.fine_tune_type = spec::FineTuneType::kHead;
  EXPECT_LT(TrainOf(spec, HalfBillion()).products, last);
}

TEST(StepCost, AttentionGrowsWithTheSquareOfTheLengthTheRestDoesNot) {
  const StepCost one = TrainOf(LoraJob(), HalfBillion(), {2, 4096});
  const StepCost two = TrainOf(LoraJob(), HalfBillion(), {1, 8192});
  EXPECT_NEAR(two.attention / one.attention, 2, 0.1);
  EXPECT_NEAR(two.products / one.products, 1, 0.01);
}

TEST(StepCost, FewerLabelsCostLessOfTheHead) {
  const StepCosts costs(LoraJob(), HalfBillion(), Mps());
  const double head = 4.0 * 8 * 512 * 151936 * 896;
  EXPECT_NEAR(
      costs.Train({8, 512}, 1).products - costs.Train({8, 512}, 0.25).products,
      0.75 * head, 1);
}

TEST(StepCost, AnEvaluationIsAForward) {
  const StepCosts costs(LoraJob(), HalfBillion(), Mps());
  const double share =
      costs.Evaluate({8, 512}, 1).products / costs.Train({8, 512}, 1).products;
  EXPECT_GT(share, 0.48);
  EXPECT_LT(share, 0.52);
}

TEST(StepCost, AnImageHasTheTokensThatTheModelMakesOfIt) {
  spec::ModelConfig vit;
  vit.family = spec::Family::kVision;
  vit.model_type = "vit";
  vit.hidden_size = 192;
  vit.intermediate_size = 768;
  vit.num_hidden_layers = 12;
  vit.num_attention_heads = vit.num_key_value_heads = 3;
  vit.head_dim = 64;
  vit.num_labels = 10;
  vit.max_position_embeddings = 197;
  spec::TrainSpec spec;
  spec.task = spec::Task::kImageCls;
  spec.fine_tune_type = spec::FineTuneType::kFull;
  const StepCost cost = TrainOf(spec, vit, {32, 1});
  const double weights = static_cast<double>(spec::ParameterCount(vit));
  // Behind the last attention the first token goes on alone.
  EXPECT_NEAR(cost.products / (6 * weights * 32 * 197), 0.94, 0.05);
}

TEST(StepCost, TheOptimizerReadsAndWritesWhatIsTrained) {
  spec::TrainSpec spec = LoraJob();
  spec.fine_tune_type = spec::FineTuneType::kFull;
  const StepCost cost = StepCosts(spec, HalfBillion(), Mps()).Optimizer();
  EXPECT_DOUBLE_EQ(
      cost.other_bytes,
      44.0 * static_cast<double>(spec::ParameterCount(HalfBillion())));
  EXPECT_EQ(cost.operations(), 0);
}

TEST(StepCost, CostsAddUp) {
  StepCost cost{1, 2, 3, 4, 5};
  cost += cost * 2;
  EXPECT_EQ(cost.products, 3);
  EXPECT_EQ(cost.operations(), 9);
  EXPECT_EQ(cost.bytes(), 21);
  EXPECT_EQ(cost.calls, 15);
}

}  // namespace
}  // namespace mpsd::plan
