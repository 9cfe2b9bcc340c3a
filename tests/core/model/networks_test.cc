// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
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

// Values against formulas written out here; equality with Transformers is
// tests/core/parity's.

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

TEST_P(BlocksTest, GradientsAreThoseOfTheBlocksAlone) {
  const Blocks blocks(GetParam());
  blocks.Forward(x_).sum().backward();
  const at::Tensor w = at::full({3}, 1.5).requires_grad_(true);
  at::Tensor x = x_;
  for (int i = 0; i < 5; ++i) x = at::sin(x * w);
  x.sum().backward();
  EXPECT_TRUE(at::allclose(blocks.w.grad(), w.grad()));
}

TEST_P(BlocksTest, WithoutGradientsNothingIsKept) {
  Blocks blocks(GetParam());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(blocks.Forward(x_).requires_grad());
  EXPECT_EQ(blocks.commits, 2);
}

INSTANTIATE_TEST_SUITE_P(Network, BlocksTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "recomputed" : "kept";
                         });

spec::ModelConfig RotaryConfig() {
  spec::ModelConfig config;
  config.head_dim = 8;
  config.rope_theta = 100;
  return config;
}

TEST(LinearTest, IsAMatrixProductWithBias) {
  Linear linear;
  linear.weight = at::randn({3, 4});
  linear.bias = at::randn({3});
  const at::Tensor x = at::randn({2, 5, 4});
  EXPECT_TRUE(at::allclose(linear.Forward(x),
                           at::matmul(x, linear.weight.t()) + linear.bias));
  EXPECT_EQ(linear.in_features(), 4);
  EXPECT_EQ(linear.out_features(), 3);
}

TEST(LinearTest, AnFp32LayerInABf16ModelComputesInFp32) {
  Linear linear;
  linear.weight = at::randn({3, 4});
  const at::Tensor x = at::randn({2, 4}).to(at::kBFloat16);
  const at::Tensor y = linear.Forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(
      y, at::linear(x.to(at::kFloat), linear.weight).to(at::kBFloat16)));
}

TEST(LinearTest, AMasterWeightIsCastAndGetsItsGradientInFp32) {
  Linear linear;
  linear.weight = at::randn({3, 4}).requires_grad_(true);
  linear.bias = at::randn({3}).requires_grad_(true);
  linear.compute_in_input_dtype = true;
  const at::Tensor x = at::randn({2, 4}).to(at::kBFloat16);
  const at::Tensor y = linear.Forward(x);
  EXPECT_TRUE(at::equal(y, at::linear(x, linear.weight.to(at::kBFloat16),
                                      linear.bias.to(at::kBFloat16))));
  y.sum().backward();
  EXPECT_EQ(linear.weight.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(linear.bias.grad().scalar_type(), at::kFloat);
  EXPECT_GT(linear.weight.grad().abs().sum().item<float>(), 0);
}

TEST(EmbeddingTest, GivesRowsInTheAskedDtypeAndNoGradientToThePaddingRow) {
  const Embedding embedding{"e", at::randn({4, 2}).requires_grad_(true), 0};
  const at::Tensor ids = at::tensor({0, 3, 3}, at::kLong);
  const at::Tensor x = embedding.Forward(ids, at::kBFloat16);
  EXPECT_TRUE(
      at::equal(x, embedding.weight.index_select(0, ids).to(at::kBFloat16)));
  x.sum().backward();
  const at::Tensor per_row = embedding.weight.grad().sum(-1);
  EXPECT_TRUE(at::equal(per_row, at::tensor({0.f, 0.f, 0.f, 4.f})));
}

TEST(LayerNormTest, IsTheFormula) {
  const at::Tensor x = at::randn({2, 3, 6});
  const LayerNorm norm{"n", at::randn({6}), at::randn({6}), 1e-3};
  const at::Tensor centred = x - x.mean({-1}, true);
  const at::Tensor expected =
      centred / at::sqrt(centred.square().mean({-1}, true) + 1e-3) *
          norm.weight +
      norm.bias;
  EXPECT_TRUE(at::allclose(norm.Forward(x), expected, 1e-5, 1e-6));
}

TEST(LayerNormTest, Fp32WeightsWorkInABf16Model) {
  const LayerNorm norm{"n", at::randn({6}).requires_grad_(true),
                       at::randn({6}).requires_grad_(true), 1e-5};
  const at::Tensor y = norm.Forward(at::randn({2, 6}).to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(norm.weight.grad().scalar_type(), at::kFloat);
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

TEST(TokenDropoutTest, AFirstTokenAloneGetsTheMaskItHasAmongAll) {
  const at::Tensor x = at::randn({3, 5, 8});
  at::manual_seed(4);
  const at::Tensor all = TokenDropout(x, 0.4, 5);
  const at::Tensor after_all = at::rand({1});
  at::manual_seed(4);
  const at::Tensor first = TokenDropout(x.narrow(1, 0, 1), 0.4, 5);
  EXPECT_TRUE(at::equal(first, all.narrow(1, 0, 1)));
  EXPECT_TRUE(at::equal(at::rand({1}), after_all));
  EXPECT_FALSE(at::equal(all, x));
}

class CountingAdapter : public LinearAdapter {
 public:
  at::Tensor Apply(const at::Tensor& base, const at::Tensor& x) override {
    return base + x.sum();
  }
};

TEST(LinearTest, AnAdapterSeesInputAndOutput) {
  Linear linear;
  linear.weight = at::eye(2);
  linear.adapter = std::make_unique<CountingAdapter>();
  const at::Tensor x = at::ones({1, 2});
  EXPECT_TRUE(at::equal(linear.Forward(x), at::full({1, 2}, 3.0)));
  EXPECT_TRUE(linear.draws());
  linear.adapter.reset();
  EXPECT_FALSE(linear.draws());
}

TEST(RmsNormTest, IsTheFormula) {
  const at::Tensor x = at::randn({2, 3, 6});
  const RmsNorm norm{"n", at::randn({6}), 1e-3};
  const at::Tensor expected =
      x / at::sqrt(x.pow(2).mean(-1, true) + 1e-3) * norm.weight;
  EXPECT_TRUE(at::allclose(norm.Forward(x), expected));
  EXPECT_EQ(RmsNorm({"n", norm.weight.to(at::kBFloat16), 1e-3})
                .Forward(x.to(at::kBFloat16))
                .scalar_type(),
            at::kBFloat16);
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

TEST(RotaryTest, RotatesPairsByPositionTimesFrequency) {
  const Rotary rotary(RotaryConfig(), at::kCPU);
  const at::Tensor positions =
      at::tensor({int64_t{0}, int64_t{3}}).view({1, 2});
  const at::Tensor x = at::randn({1, 1, 2, 8});
  const at::Tensor y = Rotary::Apply(x, rotary.Table(positions, at::kFloat));
  EXPECT_TRUE(at::allclose(y.select(2, 0), x.select(2, 0)));
  for (int i = 0; i < 4; ++i) {
    const double angle = 3 * std::pow(100.0, -2.0 * i / 8);
    const float a = x[0][0][1][i].item<float>();
    const float b = x[0][0][1][i + 4].item<float>();
    EXPECT_NEAR(y[0][0][1][i].item<float>(),
                a * std::cos(angle) - b * std::sin(angle), 1e-5);
    EXPECT_NEAR(y[0][0][1][i + 4].item<float>(),
                b * std::cos(angle) + a * std::sin(angle), 1e-5);
  }
}

TEST(RotaryTest, LinearScalingStretchesPositions) {
  spec::ModelConfig scaled = RotaryConfig();
  scaled.linear_rope_factor = 2;
  const at::Tensor six = at::full({1, 1}, 6, at::kLong);
  const at::Tensor three = at::full({1, 1}, 3, at::kLong);
  EXPECT_TRUE(at::allclose(
      Rotary(scaled, at::kCPU).Table(six, at::kFloat).cos,
      Rotary(RotaryConfig(), at::kCPU).Table(three, at::kFloat).cos));
}

TEST(RotaryTest, Llama3ScalingKeepsShortAndDividesLongWavelengths) {
  spec::ModelConfig config;
  config.head_dim = 128;
  config.rope_theta = 500000;
  config.rope_scaling = spec::Llama3RopeScaling{};
  const at::Tensor one = at::ones({1, 1}, at::kLong);
  const at::Tensor scaled = Rotary(config, at::kCPU).Table(one, at::kFloat).sin;
  config.rope_scaling.reset();
  const at::Tensor plain = Rotary(config, at::kCPU).Table(one, at::kFloat).sin;
  auto at_index = [](const at::Tensor& t, int i) {
    return t[0][0][0][i].item<double>();
  };
  EXPECT_FLOAT_EQ(at_index(scaled, 0), at_index(plain, 0));
  // sin is the angle itself for the longest wavelength.
  EXPECT_NEAR(at_index(scaled, 63) * 8 / at_index(plain, 63), 1, 1e-4);
}

using testing_support::Golden;
using testing_support::LoadGolden;

DecoderInputs Inputs(int64_t rows, int64_t length, int64_t vocab) {
  at::manual_seed(8);
  return {at::randint(vocab, {rows, length}, at::kLong),
          at::arange(length).unsqueeze(0).repeat({rows, 1}),
          {},
          {}};
}

TEST(DecoderTest, AFutureTokenChangesNothingBeforeIt) {
  auto model = LoadGolden("llama3");
  at::NoGradGuard no_grad;
  DecoderInputs inputs = Inputs(1, 12, model->config().vocab_size);
  const at::Tensor before = model->Logits(inputs);
  inputs.input_ids[0][8] =
      (inputs.input_ids[0][8].item<int64_t>() + 1) % model->config().vocab_size;
  const at::Tensor after = model->Logits(inputs);
  EXPECT_TRUE(at::allclose(before.narrow(1, 0, 8), after.narrow(1, 0, 8)));
  EXPECT_FALSE(at::allclose(before.select(1, 8), after.select(1, 8)));
}

TEST(DecoderTest, PackedSegmentsDoNotSeeEachOther) {
  auto model = LoadGolden("qwen3");
  at::NoGradGuard no_grad;
  const DecoderInputs alone = Inputs(1, 5, model->config().vocab_size);
  const DecoderInputs other = Inputs(1, 7, model->config().vocab_size);
  DecoderInputs packed;
  packed.input_ids = at::cat({other.input_ids, alone.input_ids}, 1);
  packed.position_ids = at::cat({other.position_ids, alone.position_ids}, 1);
  packed.segment_ids =
      at::cat({at::zeros({1, 7}, at::kLong), at::ones({1, 5}, at::kLong)}, 1);
  for (const auto kernel : {attention::AttentionKernel::kFused,
                            attention::AttentionKernel::kTiled}) {
    model->set_options({kernel});
    EXPECT_TRUE(at::allclose(model->Logits(packed).narrow(1, 7, 5),
                             model->Logits(alone), 1e-4, 1e-5));
  }
}

TEST(DecoderTest, NamesAreThoseOfTheCheckpointAndATiedHeadIsTheEmbedding) {
  auto model = LoadGolden("llama2");
  auto weights = *tensorfile::Weights::Open(Golden("llama2", "model"));
  std::set<std::string> names;
  for (const auto& weight : model->NamedWeights()) names.insert(weight.name);
  for (const std::string& name : weights->names()) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(names.size(), weights->names().size());
  const auto linears = model->Linears();
  EXPECT_EQ(linears.front()->name, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(linears.back()->name, "lm_head");
  auto tied = LoadGolden("llama3");
  EXPECT_TRUE(tied->head().weight.is_same(*tied->NamedWeights()[0].tensor));
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

TEST_P(EncoderTest, DropoutIsForTrainingAlone) {
  spec::ModelConfig config = config_;
  config.encoder.hidden_dropout_prob = 0.2;
  config.encoder.attention_probs_dropout_prob = 0.2;
  config.encoder.classifier_dropout = 0.2;
  const auto encoder = Fresh(config);
  at::NoGradGuard no_grad;
  const ClassifierInputs inputs = EncoderInputs({6, 4}, *config.pad_token_id);
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

constexpr double kTolerance = 1e-5;  // the issue's, relative L2 per tensor
constexpr uint64_t kSeed = 4321;     // of tests/golden/vit.py

using Tensors = std::map<std::string, at::Tensor>;

struct ForwardOptions {
  std::optional<uint64_t> dropout_seed = std::nullopt;
  bool head_only = false;
  RunOptions options = {};
};

at::Tensor MeanLoss(const at::Tensor& logits, const at::Tensor& labels) {
  return labels.dim() == 1
             ? at::cross_entropy_loss(logits, labels)
             : at::binary_cross_entropy_with_logits(logits, labels);
}

// logits, loss, grad.NAME of the case's batch.
Tensors ForwardBackward(Classifier& model, const GoldenVit& golden,
                        const ForwardOptions& run = {}) {
  model.set_options(run.options);
  model.set_training(run.dropout_seed.has_value());
  for (const NamedWeight& weight : model.NamedWeights()) {
    weight.tensor->mutable_grad() = at::Tensor();
    weight.tensor->set_requires_grad(!run.head_only ||
                                     weight.name.rfind("classifier.", 0) == 0);
  }
  if (run.dropout_seed) Seed(*run.dropout_seed);
  ClassifierInputs inputs;
  inputs.pixels = golden["pixels"];
  const at::Tensor logits = model.Logits(inputs);
  const at::Tensor loss = MeanLoss(logits.to(at::kFloat), golden["labels"]);
  loss.backward();
  Tensors out = {{"logits", logits.detach()},
                 {"loss", loss.detach().reshape({1})}};
  for (const NamedWeight& weight : model.NamedWeights()) {
    if (!weight.tensor->grad().defined()) continue;
    out["grad." + spec::StoredName(model.config(), weight.name)] =
        weight.tensor->grad().clone();
  }
  return out;
}

// Of a key's bias the gradient is rounding: it shifts all scores alike.
bool IsNoise(const std::string& name) { return name.ends_with(".key.bias"); }

void ExpectSame(const Tensors& ours, const Tensors& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, value] : theirs) {
    ASSERT_TRUE(ours.contains(name)) << name;
    if (IsNoise(name)) {
      EXPECT_LT(ours.at(name).abs().max().item<float>(), 1e-6) << name;
    } else {
      EXPECT_LE(RelativeError(ours.at(name), value), kTolerance) << name;
    }
  }
}

// What Transformers says, the names after "<run>.".
Tensors Theirs(const GoldenVit& golden, const std::string& run) {
  Tensors tensors;
  for (const auto& [name, entry] : golden.file().entries()) {
    const std::string rest =
        name.rfind(run + ".", 0) == 0 ? name.substr(run.size() + 1) : "";
    if (rest == "logits" || rest == "loss" || rest.rfind("grad.", 0) == 0) {
      tensors[rest] = golden[name];
    }
  }
  return tensors;
}

class VitCase : public testing::TestWithParam<const char*> {
 protected:
  VitCase() : golden_(GetParam()), model_(LoadVit(GetParam())) {}
  GoldenVit golden_;
  std::unique_ptr<Classifier> model_;
};

TEST_P(VitCase, LogitsLossAndEveryGradientAreThoseOfTransformers) {
  const Tensors theirs = Theirs(golden_, "full");
  EXPECT_EQ(theirs.size(), model_->NamedWeights().size() + 2);
  ExpectSame(ForwardBackward(*model_, golden_), theirs);
}

TEST_P(VitCase, TheHeadAloneHasTheSameGradients) {
  Tensors theirs = Theirs(golden_, "full");
  std::erase_if(theirs, [](const auto& item) {
    return item.first.rfind("grad.", 0) == 0 &&
           item.first.rfind("grad.classifier.", 0) != 0;
  });
  ASSERT_EQ(theirs.size(), 4u);
  ExpectSame(ForwardBackward(*model_, golden_, {.head_only = true}), theirs);
}

TEST_P(VitCase, DropoutDrawsTheMasksOfTransformers) {
  ExpectSame(ForwardBackward(*model_, golden_, {.dropout_seed = kSeed}),
             Theirs(golden_, "full_dropout"));
}

TEST_P(VitCase, CheckpointingAndTilesChangeNothing) {
  for (const bool drops : {false, true}) {
    ForwardOptions plain;
    if (drops) plain.dropout_seed = 7;
    const Tensors expected = ForwardBackward(*model_, golden_, plain);
    ForwardOptions checkpointed = plain;
    checkpointed.options.recompute = spec::Recompute::kFull;
    ExpectSame(ForwardBackward(*model_, golden_, checkpointed), expected);
    if (drops) continue;  // masks are another kernel's own
    ForwardOptions tiled = plain;
    tiled.options.attention = attention::AttentionKernel::kTiled;
    ExpectSame(ForwardBackward(*model_, golden_, tiled), expected);
  }
}

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
