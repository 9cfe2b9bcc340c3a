// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_TRAIN_LM_PARTS_H_
#define MPSD_TESTS_CORE_TRAIN_LM_PARTS_H_

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/lora/lora.h"
#include "core/optim/adamw.h"
#include "core/ckpt/weights.h"
#include "core/train/evaluate.h"
#include "core/train/language_modelling.h"
#include "tests/core/golden_model.h"
#include "tests/core/job_folder.h"

namespace mpsd::train {

// Rows of `lengths`, padded to `length`; every token but the first is a label.
inline data::Batch MakeBatch(const std::vector<int64_t>& lengths,
                             int64_t length, int64_t first_token = 3) {
  data::Batch batch;
  batch.rows = lengths.size();
  batch.length = length;
  int64_t token = first_token;
  for (const int64_t n : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      const bool real = i < n;
      token = (token * 7 + 11) % 96;
      batch.input_ids.push_back(real ? token : 0);
      batch.labels.push_back(real && i > 0 ? token : base::kIgnoreIndex);
      batch.position_ids.push_back(real ? i : 0);
      batch.segment_ids.push_back(real ? 0 : -1);
      batch.tokens += real;
      batch.label_tokens += real && i > 0;
      batch.loss_weight += real && i > 0;
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

// The golden model "llama3" with adapters on every linear, as a task trains it.
class LmParts : public testing::Test {
 protected:
  LmParts() : pipeline_(spec_) {
    const std::string folder =
        testing_support::Golden("llama3", "model").string();
    auto weights = *tensorfile::Weights::Open(folder);
    network_ = *pipeline_.LoadModel({weights.get()},
                                    *spec::ReadModelConfig(folder), nullptr);
    at::manual_seed(10);
    spec::LoraSpec lora;
    lora.target_modules = spec::LoraSpec::AllLinear{};
    adapter_ = *lora::Adapter::Attach(*network_, lora, at::kCPU);
    // B is zero at first: with noise every gradient is something.
    at::NoGradGuard no_grad;
    at::Tensor values = adapter_->parameters().groups()[0].values;
    values.add_(at::randn_like(values) * 0.1);
  }
  TrainingSubject subject() {
    return {pipeline_, *network_, *adapter_, *device_};
  }

  spec::TrainSpec spec_;
  LanguageModelling pipeline_;
  std::unique_ptr<model::Network> network_;
  std::unique_ptr<device::Device> device_ = *device::OpenCpu();
  std::unique_ptr<lora::Adapter> adapter_;
};

}  // namespace mpsd::train

#endif  // MPSD_TESTS_CORE_TRAIN_LM_PARTS_H_
