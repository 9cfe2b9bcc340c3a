// SPDX-License-Identifier: Apache-2.0
#include "core/model/decoder_classifier.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/tensorfile/weights.h"
#include "tests/core/golden_model.h"

namespace mpsd::model {
namespace {

using testing_support::Golden;

class DecoderClassifierTest : public testing::Test {
 protected:
  // A language model's file: it has no "score".
  void SetUp() override {
    const auto folder = Golden("llama2", "model");
    config_ = *spec::ReadModelConfig(folder.string());
    config_.num_labels = 3;
    weights_ = *tensorfile::Weights::Open(folder);
    at::manual_seed(14);
    model_ = Open();
    inputs_.input_ids = at::randint(3, 100, {2, 6}, at::kLong);
    inputs_.lengths = at::tensor({6, 4}, at::kLong);
    inputs_.input_ids[1].narrow(0, 4, 2).fill_(*config_.pad_token_id);
  }
  std::unique_ptr<DecoderClassifier> Open() {
    at::manual_seed(14);
    auto model = DecoderClassifier::Load({weights_.get()}, config_);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  at::Tensor Row(int64_t row, int64_t length) {
    ClassifierInputs one;
    one.input_ids = inputs_.input_ids.narrow(0, row, 1).narrow(1, 0, length);
    one.lengths = at::tensor({length}, at::kLong);
    return model_->Logits(one)[0];
  }

  at::NoGradGuard no_grad_;
  spec::ModelConfig config_;
  std::unique_ptr<tensorfile::Weights> weights_;
  std::unique_ptr<DecoderClassifier> model_;
  ClassifierInputs inputs_;
};

TEST_F(DecoderClassifierTest, DrawsAndNamesItsHead) {
  EXPECT_THAT(model_->fresh_modules(), testing::ElementsAre("score"));
  EXPECT_EQ(model_->Linears().back()->name, "score");
  EXPECT_EQ(model_->NamedWeights().back().name, "score.weight");
}

TEST_F(DecoderClassifierTest, TakesEachRowsLastToken) {
  const at::Tensor logits = model_->Logits(inputs_);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_TRUE(at::allclose(logits[0], Row(0, 6), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(logits[1], Row(1, 4), 1e-4, 1e-5));
}

// Texts that end in a token that also pads: Transformers takes the one before.
TEST_F(DecoderClassifierTest, ALastTokenThatPadsIsPassedOver) {
  inputs_.input_ids[0][5] = *config_.pad_token_id;
  EXPECT_TRUE(at::allclose(model_->Logits(inputs_)[0], Row(0, 5), 1e-4, 1e-5));
}

TEST_F(DecoderClassifierTest, WithoutAPaddingTokenLengthsDecide) {
  config_.pad_token_id.reset();
  model_ = Open();
  EXPECT_TRUE(at::allclose(model_->Logits(inputs_)[1], Row(1, 4), 1e-4, 1e-5));
}

}  // namespace
}  // namespace mpsd::model
