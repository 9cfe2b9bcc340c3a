// SPDX-License-Identifier: Apache-2.0
#include "core/train/step.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/core/golden_model.h"

namespace mpsd::train {
namespace {

// Rows of `lengths`, padded to `length`; every token but the first is a label.
data::Batch MakeBatch(const std::vector<int64_t>& lengths, int64_t length,
                      int64_t first_token = 3) {
  data::Batch batch;
  batch.rows = lengths.size();
  batch.length = length;
  int64_t token = first_token;
  for (const int64_t n : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      const bool real = i < n;
      token = (token * 7 + 11) % 96;
      batch.input_ids.push_back(real ? token : 0);
      batch.labels.push_back(real && i > 0 ? token : data::kIgnoreIndex);
      batch.position_ids.push_back(real ? i : 0);
      batch.segment_ids.push_back(real ? 0 : -1);
      batch.tokens += real;
      batch.label_tokens += real && i > 0;
    }
  }
  return batch;
}

// Batches made beforehand: sample i is batch i.
class Batches : public data::Source {
 public:
  explicit Batches(std::vector<data::Batch> batches)
      : batches_(std::move(batches)) {}
  int64_t size() const override { return batches_.size(); }
  int64_t length(int64_t index) const override {
    return batches_[index].length;
  }
  absl::StatusOr<data::Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const data::Collation&) const override {
    return batches_[rows[0][0]];
  }
  std::string hash() const override { return ""; }
  const data::DatasetStats& stats() const override { return stats_; }

 private:
  const std::vector<data::Batch> batches_;
  data::DatasetStats stats_;
};

class StepTest : public testing::Test {
 protected:
  StepTest() {
    at::manual_seed(10);
    spec::LoraSpec lora;
    lora.target_modules = spec::LoraSpec::AllLinear{};
    adapter_ = *lora::Adapter::Attach(*model_, lora, at::kCPU);
    // B is zero at first: with noise every gradient is something.
    at::NoGradGuard no_grad;
    at::Tensor values = adapter_->parameters().groups()[0].values;
    values.add_(at::randn_like(values) * 0.1);
    optimizer_ = std::make_unique<optim::AdamW>(adapter_->parameters(),
                                                spec::TrainingSpec{});
    stepper_ = std::make_unique<Stepper>(*model_, *adapter_, *optimizer_,
                                         *device_, 1.0);
  }
  at::Tensor Gradient(const std::vector<data::Batch>& batches) {
    loss_ = stepper_->AccumulateGradients(batches).item<double>();
    return adapter_->parameters().groups()[0].gradients.clone();
  }
  absl::StatusOr<EvalResult> Evaluation(
      std::vector<data::Batch> batches,
      const std::function<bool(double)>& go_on) {
    const Batches source(std::move(batches));
    return Evaluate(*model_, *adapter_, *device_, data::EvalLoader(source, 1),
                    go_on);
  }
  std::unique_ptr<model::Decoder> model_ =
      testing_support::LoadGolden("llama3");
  std::unique_ptr<device::Device> device_ = *device::OpenCpu();
  std::unique_ptr<lora::Adapter> adapter_;
  std::unique_ptr<optim::AdamW> optimizer_;
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
      part.label_tokens += label != data::kIgnoreIndex;
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
  padded.labels.resize(16, data::kIgnoreIndex);
  padded.position_ids.resize(16, 0);
  padded.segment_ids.resize(16, -1);
  EXPECT_LE((Gradient({padded}) - tight).norm().item<double>(),
            1e-5 * tight.norm().item<double>());
}

TEST_F(StepTest, CheckpointingAndTilesChangeNothing) {
  const std::vector<data::Batch> batches = {MakeBatch({12, 7}, 12)};
  const at::Tensor plain = Gradient(batches);
  for (const model::RunOptions& options :
       {model::RunOptions{model::AttentionKernel::kFused, true},
        model::RunOptions{model::AttentionKernel::kTiled, false},
        model::RunOptions{model::AttentionKernel::kTiled, true}}) {
    model_->set_options(options);
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

TEST_F(StepTest, EvaluationIsTheMeanOverAllTokens) {
  const data::Batch a = MakeBatch({9, 3}, 9), b = MakeBatch({4}, 9, 50);
  std::vector<double> asked;
  const auto both = Evaluation({a, b}, [&](double fraction) {
    asked.push_back(fraction);
    return true;
  });
  auto alone = [&](const data::Batch& batch) {
    return *Evaluation({batch}, [](double) { return true; });
  };
  EXPECT_EQ(both->label_tokens, 13);
  EXPECT_NEAR(both->loss, (alone(a).loss * 10 + alone(b).loss * 3) / 13, 1e-6);
  EXPECT_THAT(asked, testing::ElementsAre(0, 0.5));
}

TEST_F(StepTest, AnEvaluationCanBeStopped) {
  EXPECT_TRUE(absl::IsCancelled(
      Evaluation({MakeBatch({4}, 4)}, [](double) { return false; }).status()));
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
