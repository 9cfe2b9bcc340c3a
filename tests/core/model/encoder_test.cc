// SPDX-License-Identifier: Apache-2.0
// Structure and options; the numbers are held against Transformers in
// tests/core/parity.
#include "core/model/encoder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/spec/modules.h"
#include "tests/core/model/encoder_config.h"

namespace mpsd::model {
namespace {

std::unique_ptr<Encoder> Fresh(const spec::ModelConfig& config) {
  at::manual_seed(12);
  auto encoder = Encoder::Load({}, config);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

ClassifierInputs Inputs(const std::vector<int64_t>& lengths, int64_t padding) {
  at::manual_seed(13);
  ClassifierInputs inputs;
  const int64_t rows = lengths.size(), length = lengths[0];
  inputs.input_ids = at::randint(3, 50, {rows, length}, at::kLong);
  inputs.lengths = at::tensor(lengths, at::kLong);
  inputs.input_ids.masked_fill_(
      at::arange(length) >= inputs.lengths.unsqueeze(1), padding);
  return inputs;
}

class EncoderTest : public testing::TestWithParam<const char*> {
 protected:
  const spec::ModelConfig config_ = EncoderConfigOf(GetParam());
  const std::unique_ptr<Encoder> encoder_ = Fresh(config_);
};

TEST_P(EncoderTest, APaddedRowGivesWhatItGivesAlone) {
  at::NoGradGuard no_grad;
  const ClassifierInputs both = Inputs({9, 5}, *config_.pad_token_id);
  ClassifierInputs alone;
  alone.input_ids = both.input_ids.narrow(0, 1, 1).narrow(1, 0, 5);
  alone.padded = false;
  for (const auto kernel : {attention::AttentionKernel::kFused,
                            attention::AttentionKernel::kTiled}) {
    encoder_->set_options({kernel});
    const at::Tensor logits = encoder_->Logits(both);
    EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 3}));
    EXPECT_TRUE(
        at::allclose(logits[1], encoder_->Logits(alone)[0], 1e-4, 1e-5));
  }
}

TEST_P(EncoderTest, NamesAndShapesAreThoseOfTheModules) {
  std::vector<std::string> names, expected, linears, expected_linears;
  for (const NamedWeight& w : encoder_->NamedWeights()) names.push_back(w.name);
  for (const Linear* l : encoder_->Linears()) linears.push_back(l->name);
  for (const spec::Module& m : spec::Modules(config_)) {
    expected.push_back(m.name + ".weight");
    if (m.bias) expected.push_back(m.name + ".bias");
    if (m.kind == spec::Module::Kind::kLinear) {
      expected_linears.push_back(m.name);
    }
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(linears, expected_linears);
}

TEST_P(EncoderTest, ItSaysWhatItsAttentionRanBy) {
  at::NoGradGuard no_grad;
  spec::ModelConfig config = config_;
  config.encoder.attention_probs_dropout_prob = 0.2;
  const auto encoder = Fresh(config);
  const ClassifierInputs inputs = Inputs({9, 5}, *config.pad_token_id);
  encoder->Logits(inputs);
  EXPECT_THAT(encoder->attention_ran(false),
              testing::ElementsAre("scaled_dot_product_attention"));
  EXPECT_THAT(encoder->attention_ran(true), testing::ElementsAre());
  encoder->set_options({attention::AttentionKernel::kTiled});
  encoder->set_training(true);
  encoder->Logits(inputs);
  EXPECT_THAT(encoder->attention_ran(true), testing::ElementsAre("plain"));
  encoder->set_training(false);
  encoder->Logits(inputs);  // the last block has one query alone
  EXPECT_THAT(
      encoder->attention_ran(false),
      testing::ElementsAre("plain", "scaled_dot_product_attention", "tiled"));
}

TEST_P(EncoderTest, DropoutIsForTrainingAlone) {
  spec::ModelConfig config = config_;
  config.encoder.hidden_dropout_prob = 0.2;
  config.encoder.attention_probs_dropout_prob = 0.2;
  config.encoder.classifier_dropout = 0.2;
  const auto encoder = Fresh(config);
  at::NoGradGuard no_grad;
  const ClassifierInputs inputs = Inputs({6, 4}, *config.pad_token_id);
  EXPECT_TRUE(at::equal(encoder->Logits(inputs), encoder_->Logits(inputs)));
  encoder->set_training(true);
  EXPECT_FALSE(at::allclose(encoder->Logits(inputs), encoder->Logits(inputs)));
}

// fp32 masters in a network that computes in bf16.
TEST_P(EncoderTest, MastersGetFp32Gradients) {
  at::manual_seed(12);
  auto encoder =
      *Encoder::Load({nullptr, at::kCPU, at::kBFloat16, false}, config_);
  for (const NamedWeight& w : encoder->NamedWeights()) {
    *w.tensor = w.tensor->to(at::kFloat).requires_grad_(true);
  }
  for (Linear* l : encoder->Linears()) l->compute_in_input_dtype = true;
  const ClassifierInputs inputs = Inputs({6, 4}, *config_.pad_token_id);
  const at::Tensor logits = encoder->Logits(inputs);
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(
      at::allclose(logits.to(at::kFloat), encoder_->Logits(inputs), 0.1, 0.1));
  logits.sum().backward();
  for (const NamedWeight& w : encoder->NamedWeights()) {
    ASSERT_TRUE(w.tensor->grad().defined()) << w.name;
    EXPECT_EQ(w.tensor->grad().scalar_type(), at::kFloat) << w.name;
  }
}

class DrawingAdapter : public LinearAdapter {
 public:
  explicit DrawingAdapter(std::vector<int64_t>& lengths) : lengths_(lengths) {}
  at::Tensor Apply(const at::Tensor& base, const at::Tensor& x) override {
    lengths_.push_back(x.size(1));
    return base;
  }
  bool draws() const override { return draws_; }
  bool draws_ = true;

 private:
  std::vector<int64_t>& lengths_;
};

TEST_P(EncoderTest, TheLastBlockStopsAtTheFirstTokenUnlessAnAdapterDraws) {
  std::vector<int64_t> lengths;
  const std::string block = std::string("layer.1.");
  DrawingAdapter* drawing = nullptr;
  for (Linear* l : encoder_->Linears()) {
    if (l->name.find(block) == std::string::npos) continue;
    if (!l->name.ends_with("output.dense") && !l->name.ends_with("lin2")) {
      continue;
    }
    if (l->in_features() != config_.intermediate_size) continue;
    auto adapter = std::make_unique<DrawingAdapter>(lengths);
    drawing = adapter.get();
    l->adapter = std::move(adapter);
  }
  ASSERT_NE(drawing, nullptr);
  const ClassifierInputs inputs = Inputs({6, 4}, *config_.pad_token_id);
  const at::Tensor among_all = encoder_->Logits(inputs);
  drawing->draws_ = false;
  const at::Tensor alone = encoder_->Logits(inputs);
  EXPECT_THAT(lengths, testing::ElementsAre(6, 1));
  EXPECT_TRUE(at::allclose(among_all, alone, 1e-5, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(Types, EncoderTest,
                         testing::Values("bert", "roberta", "distilbert"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(EncoderTypesTest, TokenTypesCountInBertAndNotInRoberta) {
  at::NoGradGuard no_grad;
  for (const char* type : {"bert", "roberta"}) {
    const spec::ModelConfig config = EncoderConfigOf(type);
    const auto encoder = Fresh(config);
    ClassifierInputs inputs = Inputs({6}, *config.pad_token_id);
    const at::Tensor before = encoder->Logits(inputs);
    inputs.token_type_ids = at::zeros({1, 6}, at::kLong);
    EXPECT_TRUE(at::equal(encoder->Logits(inputs), before));
    inputs.token_type_ids.narrow(1, 3, 3).fill_(1);
    EXPECT_EQ(at::equal(encoder->Logits(inputs), before),
              type == std::string("roberta"));
  }
}

}  // namespace
}  // namespace mpsd::model
