// SPDX-License-Identifier: Apache-2.0
#include "core/train/step.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/work_count.h"
#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

class StepTest : public LmParts {
 protected:
  StepTest()
      : optimizer_(adapter_->parameters(), spec::TrainingSpec{}),
        stepper_(std::make_unique<Stepper>(subject(), optimizer_, 1.0)) {}
  at::Tensor Gradient(const std::vector<data::Batch>& batches) {
    loss_ = stepper_->AccumulateGradients(batches).item<double>();
    return adapter_->parameters().groups()[0].gradients.clone();
  }
  optim::AdamW optimizer_;
  std::unique_ptr<Stepper> stepper_;
  double loss_ = 0;
};

TEST_F(StepTest, SplittingABatchUnevenlyChangesNothing) {
  const at::Tensor whole = Gradient({MakeBatch({9, 3, 5}, 9)});
  const double whole_loss = loss_;
  // The same rows, one micro-batch each, their tokens continued.
  std::vector<data::Batch> parts;
  const data::Batch all = MakeBatch({9, 3, 5}, 9);
  for (int64_t row = 0; row < 3; ++row) {
    data::Batch part;
    part.rows = 1;
    part.length = 9;
    auto take = [&](const std::vector<int64_t>& from) {
      return std::vector<int64_t>(from.begin() + row * 9,
                                  from.begin() + (row + 1) * 9);
    };
    part.input_ids = take(all.input_ids);
    part.labels = take(all.labels);
    part.position_ids = take(all.position_ids);
    part.segment_ids = take(all.segment_ids);
    for (int64_t label : part.labels) {
      part.label_tokens += label != base::kIgnoreIndex;
      part.loss_weight += label != base::kIgnoreIndex;
    }
    parts.push_back(part);
  }
  const at::Tensor split = Gradient(parts);
  EXPECT_NEAR(loss_, whole_loss, 1e-6);
  EXPECT_LE((split - whole).norm().item<double>(),
            1e-5 * whole.norm().item<double>());
}

TEST_F(StepTest, PaddingChangesNothing) {
  const at::Tensor tight = Gradient({MakeBatch({6}, 6)});
  data::Batch padded = MakeBatch({6}, 6);
  padded.length = 16;
  padded.input_ids.resize(16, 0);
  padded.labels.resize(16, base::kIgnoreIndex);
  padded.position_ids.resize(16, 0);
  padded.segment_ids.resize(16, -1);
  EXPECT_LE((Gradient({padded}) - tight).norm().item<double>(),
            1e-5 * tight.norm().item<double>());
}

TEST_F(StepTest, CheckpointingAndTilesChangeNothing) {
  const std::vector<data::Batch> batches = {MakeBatch({12, 7}, 12)};
  const at::Tensor plain = Gradient(batches);
  for (const model::RunOptions& options :
       {model::RunOptions{attention::AttentionKernel::kFused,
                          spec::Recompute::kFull},
        model::RunOptions{attention::AttentionKernel::kTiled},
        model::RunOptions{attention::AttentionKernel::kTiled,
                          spec::Recompute::kFull}}) {
    network_->set_options(options);
    EXPECT_LE((Gradient(batches) - plain).norm().item<double>(),
              1e-5 * plain.norm().item<double>());
  }
}

TEST_F(StepTest, StepsBringTheLossDown) {
  const std::vector<data::Batch> batches = {MakeBatch({12, 7}, 12)};
  const double first = stepper_->Run(batches, 1e-2)->loss;
  double last = first;
  for (int i = 0; i < 20; ++i) last = stepper_->Run(batches, 1e-2)->loss;
  EXPECT_LT(last, 0.8 * first);
}

TEST_F(StepTest, IsAskedBetweenMicroBatchesAndChangesNothingWhenStopped) {
  const std::vector<data::Batch> batches = {
      MakeBatch({12}, 12), MakeBatch({7}, 7), MakeBatch({9}, 9)};
  const at::Tensor gradient = Gradient(batches);
  const at::Tensor before = adapter_->parameters().groups()[0].values.clone();
  const int64_t work = base::WorkCount();
  int asked = 0;
  const auto stopped =
      stepper_->Run(batches, 1e-2, [&] { return ++asked < 2; });
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_EQ(asked, 2);
  EXPECT_GE(base::WorkCount() - work, 2) << "no proof of life";
  EXPECT_TRUE(at::equal(adapter_->parameters().groups()[0].values, before));
  // The partial gradient is not in the next one.
  EXPECT_TRUE(at::equal(Gradient(batches), gradient));
}

TEST_F(StepTest, NumbersThatAreNotFiniteEndTheRun) {
  adapter_->parameters().groups()[0].values.fill_(
      std::numeric_limits<float>::quiet_NaN());
  const absl::Status status = stepper_->Run({MakeBatch({4}, 4)}, 1e-3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("not finite"));
}

}  // namespace
}  // namespace mpsd::train
