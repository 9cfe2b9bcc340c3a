// SPDX-License-Identifier: Apache-2.0
#include "core/train/micro_batch_trial.h"

#include "core/data/token_dataset.h"
#include "core/host/platform.h"
#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

data::TokenDataset Samples() {
  std::vector<data::TokenSample> samples;
  for (int32_t length : {5, 9, 7, 3}) {
    data::TokenSample sample;
    for (int32_t i = 0; i < length; ++i) {
      sample.input_ids.push_back((7 * i + length) % 96);
      sample.in_loss.push_back(1);
    }
    samples.push_back(std::move(sample));
  }
  return data::TokenDataset(data::TokenArrays(samples), {.max_length = 16}, {},
                            "");
}

class MicroBatchTrialTest : public LmParts {
 protected:
  MicroBatchTrialTest()
      : optimizer_(adapter_->parameters(), spec_.training),
        stepper_(subject(), optimizer_, 1) {}

  const data::TokenDataset dataset_ = Samples();
  optim::AdamW optimizer_;
  Stepper stepper_;
};

TEST_F(MicroBatchTrialTest, MeasuresTimeAndMemory) {
  MicroBatchTrials trials(subject(), stepper_, dataset_, {.max_length = 16},
                          [](const MicroBatch& choice) {
                            return (int64_t{1} << 50) * choice.rows;
                          });
  const auto trial = trials.Measure({2}, 8);
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_GT(trial->step_seconds, 0);
  EXPECT_EQ(trial->peak_bytes, int64_t{1} << 51);  // the CPU counts no peak
  EXPECT_GT(trials.resident_bytes(), 0);
  EXPECT_GT(trials.limit_bytes(), 0);
  EXPECT_LT(trials.limit_bytes(), host::PhysicalMemoryBytes());
  // More rows than the data has.
  EXPECT_TRUE(trials.Measure({8, spec::Recompute::kFull}, 8).ok());
}

TEST_F(MicroBatchTrialTest, RunningOutOfMemoryIsAResult) {
  int runs = 0;
  const auto out_of_memory = [&runs](const std::function<void()>& work) {
    work();  // as far as it comes
    ++runs;
    return absl::ResourceExhaustedError("MPS backend out of memory");
  };
  MicroBatchTrials trials(
      subject(), stepper_, dataset_, {.max_length = 16},
      [](const MicroBatch&) { return int64_t{7}; }, out_of_memory);
  const auto trial = trials.Measure({2}, 8);
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(trial->tried);
  EXPECT_TRUE(trial->out_of_memory);
  EXPECT_GE(trial->peak_bytes, 7);
  EXPECT_EQ(trial->step_seconds, 0);
  EXPECT_EQ(
      adapter_->parameters().groups()[0].gradients.abs().max().item<float>(),
      0);
}

TEST_F(MicroBatchTrialTest, OtherErrorsAreErrors) {
  MicroBatchTrials trials(
      subject(), stepper_, dataset_, {.max_length = 16},
      [](const MicroBatch&) { return int64_t{0}; },
      [](const std::function<void()>&) { return absl::DataLossError("x"); });
  EXPECT_TRUE(absl::IsDataLoss(trials.Measure({1}, 8).status()));
}

TEST_F(MicroBatchTrialTest, PackedRowsAreMeasuredToo) {
  MicroBatchTrials trials(subject(), stepper_, dataset_,
                          {.max_length = 16, .packing = true},
                          [](const MicroBatch&) { return int64_t{0}; });
  EXPECT_TRUE(trials.Measure({1}, 2).ok());
}

TEST_F(MicroBatchTrialTest, LeavesEverythingAsItWas) {
  const auto snapshot = [this] {
    std::vector<at::Tensor> all;
    for (const auto& group : adapter_->parameters().groups()) {
      all.push_back(group.values.detach().clone());
      all.push_back(group.gradients.clone());
    }
    for (const auto& weight : network_->NamedWeights()) {
      all.push_back(weight.tensor->clone());
    }
    all.push_back(device::CpuRngState());
    return all;
  };
  adapter_->parameters().ZeroGradients();
  const auto before = snapshot();
  {
    MicroBatchTrials trials(subject(), stepper_, dataset_, {.max_length = 16},
                            [](const MicroBatch&) { return int64_t{0}; });
    ASSERT_TRUE(trials.Measure({2, spec::Recompute::kFull}, 8).ok());
    at::randn({7});  // as dropout would
  }
  const auto after = snapshot();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(before[i], after[i])) << i;
  }
  EXPECT_EQ(network_->options().recompute, spec::Recompute::kNone);
}

}  // namespace
}  // namespace mpsd::train
