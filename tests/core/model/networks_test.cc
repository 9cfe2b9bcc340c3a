// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/model/decoder.h"
#include "core/model/encoder.h"
#include "core/model/layers.h"
#include "core/model/network.h"
#include "core/model/vit.h"
#include "core/spec/modules.h"
#include "tests/core/calls.h"
#include "tests/core/golden_model.h"
#include "tests/core/model/golden_models.h"

// Equality with Transformers is tests/core/parity's.

namespace mpsd::model {
namespace {

// Five blocks y = sin(w x).
class Blocks : public Network {
 public:
  explicit Blocks(bool recomputed) : Network({}, at::kFloat) {
    RunOptions options;
    if (recomputed) options.recompute = spec::Recompute::kFull;
    set_options(options);
    set_commit([this] { ++commits; });
  }
  std::vector<Linear*> Linears() override { return {}; }
  std::vector<NamedWeight> NamedWeights() override { return {}; }

  at::Tensor Forward(at::Tensor x) const {
    for (size_t i = 0; i < 5; ++i) {
      x = RunBlock(
          i, [this](const at::Tensor& in) { return at::sin(in * w); }, x,
          /*draws=*/false);
    }
    return x;
  }

  const at::Tensor w = at::full({3}, 1.5).requires_grad_(true);
  int commits = 0;
};

class BlocksTest : public testing::TestWithParam<bool> {
 protected:
  const at::Tensor x_ = at::tensor({0.1, 0.2, 0.3}, at::kFloat);
};

TEST_P(BlocksTest, AreHandedOverEveryFewAndCountAsWorkThereAndBack) {
  const Blocks blocks(GetParam());
  const int64_t before = base::WorkCount();
  const at::Tensor y = blocks.Forward(x_);
  const int64_t there = base::WorkCount() - before;
  EXPECT_EQ(there, 5);
  EXPECT_EQ(blocks.commits, 2);
  y.sum().backward();
  EXPECT_EQ(blocks.commits, 4);
  EXPECT_EQ(base::WorkCount() - before - there, GetParam() ? 10 : 5);
}

INSTANTIATE_TEST_SUITE_P(Network, BlocksTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "recomputed" : "kept";
                         });

TEST(LinearTest, AnFp32LayerInABf16ModelComputesInFp32) {
  Linear linear;
  linear.weight = at::randn({3, 4});
  const at::Tensor x = at::randn({2, 4}).to(at::kBFloat16);
  const at::Tensor y = linear.Forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(
      y, at::linear(x.to(at::kFloat), linear.weight).to(at::kBFloat16)));
}

TEST(ActivateTest, KnowsTransformersNames) {
  const at::Tensor x = at::linspace(-3, 3, 13);
  const at::Tensor inner = 0.7978845608 * (x + 0.044715 * x.pow(3));
  const at::Tensor tanh_gelu = 0.5 * x * (1 + inner.tanh());
  const at::Tensor gelu = 0.5 * x * (1 + (x / std::sqrt(2.0)).erf());
  EXPECT_TRUE(at::allclose(Activate(x, "gelu"), gelu, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(Activate(x, "gelu_new"), tanh_gelu, 1e-5, 1e-6));
  EXPECT_TRUE(
      at::allclose(Activate(x, "gelu_pytorch_tanh"), tanh_gelu, 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(Activate(x, "relu"), x.clamp_min(0)));
  EXPECT_TRUE(at::allclose(Activate(x, "silu"), x * x.sigmoid()));
  EXPECT_TRUE(at::allclose(Activate(x, "swish"), x * x.sigmoid()));
}

// Gradients of heads are copied for the sake of MPS alone.
TEST(RmsNormTest, OtherDevicesGetNoNodeForGradientsOfHeads) {
  const auto options = at::device(at::kMeta);
  const RmsNorm norm{"n", at::ones({8}, options), 1e-6};
  const at::Tensor x =
      at::ones({2, 3, 4, 8}, options).transpose(1, 2).requires_grad_();
  auto calls = testing_support::CallsOf([&] { norm.Forward(x); });
  EXPECT_GT(calls["aten::rsqrt"], 0);
  EXPECT_EQ(calls["aten::view"], 0);
}

std::unique_ptr<Encoder> Fresh(const spec::ModelConfig& config) {
  at::manual_seed(12);
  return Encoder::Load({}, config).value();
}

ClassifierInputs EncoderInputs(const std::vector<int64_t>& lengths,
                               int64_t padding) {
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
  const ClassifierInputs both = EncoderInputs({9, 5}, *config_.pad_token_id);
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
  const ClassifierInputs inputs = EncoderInputs({9, 5}, *config.pad_token_id);
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

// fp32 masters in a network that computes in bf16.
TEST_P(EncoderTest, MastersGetFp32Gradients) {
  at::manual_seed(12);
  auto encoder =
      *Encoder::Load({nullptr, at::kCPU, at::kBFloat16, false}, config_);
  for (const NamedWeight& w : encoder->NamedWeights()) {
    *w.tensor = w.tensor->to(at::kFloat).requires_grad_(true);
  }
  for (Linear* l : encoder->Linears()) l->compute_in_input_dtype = true;
  const ClassifierInputs inputs = EncoderInputs({6, 4}, *config_.pad_token_id);
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
    lengths_.push_back(x.size(0) / 2);  // rows
    return base;
  }
  bool draws() const override { return draws_; }
  bool draws_ = true;

 private:
  std::vector<int64_t>& lengths_;
};

TEST_P(EncoderTest, TheLastBlockStopsAtTheFirstTokenUnlessAnAdapterDraws) {
  std::vector<int64_t> lengths;
  DrawingAdapter* drawing = nullptr;
  for (Linear* l : encoder_->Linears()) {
    if (l->name.find("layer.1.") == std::string::npos) continue;
    if (!l->name.ends_with("output.dense") && !l->name.ends_with("lin2")) {
      continue;
    }
    if (l->in_features() != config_.intermediate_size) continue;
    auto adapter = std::make_unique<DrawingAdapter>(lengths);
    drawing = adapter.get();
    l->adapter = std::move(adapter);
  }
  ASSERT_NE(drawing, nullptr);
  const ClassifierInputs inputs = EncoderInputs({6, 4}, *config_.pad_token_id);
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
    ClassifierInputs inputs = EncoderInputs({6}, *config.pad_token_id);
    const at::Tensor before = encoder->Logits(inputs);
    inputs.token_type_ids = at::zeros({1, 6}, at::kLong);
    EXPECT_TRUE(at::equal(encoder->Logits(inputs), before));
    inputs.token_type_ids.narrow(1, 3, 3).fill_(1);
    EXPECT_EQ(at::equal(encoder->Logits(inputs), before),
              type == std::string("roberta"));
  }
}

class VitCase : public testing::TestWithParam<const char*> {
 protected:
  VitCase() : golden_(GetParam()), model_(LoadVit(GetParam())) {}
  GoldenVit golden_;
  std::unique_ptr<Classifier> model_;
};

TEST_P(VitCase, BfloatIsNearAndKeepsItsDtype) {
  const auto half = LoadVit(GetParam(), at::kBFloat16);
  ClassifierInputs inputs;
  inputs.pixels = golden_["pixels"];
  const at::Tensor logits = half->Logits(inputs);
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_LT(RelativeError(logits, golden_["full.logits"]), 0.05);
}

TEST_P(VitCase, ListsItsWeightsAsSpecModulesDoes) {
  using Kind = spec::Module::Kind;
  std::vector<std::string> names, linears;
  for (const spec::Module& module : spec::Modules(model_->config())) {
    const bool bare = module.kind == Kind::kParameter;
    names.push_back(module.name + (bare ? "" : ".weight"));
    if (module.bias) names.push_back(module.name + ".bias");
    if (module.kind == Kind::kLinear) linears.push_back(module.name);
  }
  std::vector<std::string> ours, our_linears;
  for (const auto& weight : model_->NamedWeights()) ours.push_back(weight.name);
  for (const Linear* linear : model_->Linears()) {
    our_linears.push_back(linear->name);
  }
  EXPECT_EQ(ours, names);
  EXPECT_EQ(our_linears, linears);
}

TEST_P(VitCase, RefusesImagesOfAnotherSize) {
  const at::Tensor pixels = golden_["pixels"];
  ClassifierInputs inputs;
  inputs.pixels = at::constant_pad_nd(pixels, {0, 1});
  EXPECT_THROW(model_->Logits(inputs), c10::Error);
  inputs.pixels = at::cat({pixels, pixels}, 1);
  EXPECT_THROW(model_->Logits(inputs), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Cases, VitCase, testing::Values("vit", "vit_grey"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace

}  // namespace mpsd::model
