// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/explicit_step.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/explicit_step/head.h"
#include "core/explicit_step/linear_group.h"
#include "core/explicit_step/norm.h"
#include "core/full/full_model.h"
#include "core/host/traits.h"
#include "core/lora/lora.h"
#include "core/model/decoder.h"
#include "core/model/losses.h"
#include "core/spec/model_config.h"
#include "gtest/gtest.h"
#include "tests/core/relative_error.h"

namespace mpsd::explicit_step {
namespace {

// By whose traits the CPU computes.
using backend::Choice;

using testing_support::RelativeError;

Options OptionsOf(Choice choice) { return {{backend::TraitsOf(choice)}}; }

// A small random decoder with an adapter whose B is not zero, or, without one,
// trained whole.
struct Tiny {
  explicit Tiny(const std::string& more = "",
                const std::optional<spec::LoraSpec>& lora = AllLinear(),
                const std::string& type = "llama",
                at::ScalarType dtype = at::kFloat) {
    at::manual_seed(7);
    auto config = *spec::ParseModelConfig(
        R"({"model_type": ")" + type +
            R"(", "vocab_size": 61,
            "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 3, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8,
            "max_position_embeddings": 128, "initializer_range": 0.2,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": )" +
            (type == "llama" ? "false" : "true") + more + "}",
        "tiny");
    model::WeightSource source;
    source.dtype = dtype;
    decoder = model::Decoder::Load(source, config).value();
    if (lora) {
      trainable = lora::Adapter::Attach(*decoder, *lora, at::kCPU).value();
    } else {
      trainable = full::FullModel::Attach(*decoder, {}, at::kCPU).value();
    }
    const at::NoGradGuard no_grad;
    for (const optim::Parameter& p : parameters().parameters()) {
      at::Tensor value = p.value;
      // Norms and biases are drawn as 1 and 0.
      if (lora || value.dim() == 1) value.add_(at::randn_like(value) * 0.1);
    }
    parameters().RefreshCopies();
  }

  static spec::LoraSpec AllLinear() {
    spec::LoraSpec lora;
    lora.r = 3;
    lora.lora_alpha = 6;
    lora.target_modules = spec::LoraSpec::AllLinear{};
    return lora;
  }

  optim::ParameterSet& parameters() const { return trainable->parameters(); }

  // Copies of the gradients, which are then zero.
  std::vector<at::Tensor> TakeGradients() const {
    std::vector<at::Tensor> grads;
    for (const auto& p : parameters().parameters()) {
      grads.push_back(p.value.grad().clone());
    }
    parameters().ZeroGradients();
    return grads;
  }

  const model::DecoderLayer& layer() const { return decoder->layers()[0]; }

  std::unique_ptr<model::Decoder> decoder;
  std::unique_ptr<optim::Trainable> trainable;
};

// The same tokens at every call, whenever the compiler evaluates it.
model::DecoderInputs Inputs(int64_t rows, int64_t length) {
  model::DecoderInputs inputs;
  inputs.input_ids = at::randint(
      61, {rows, length}, at::detail::createCPUGenerator(rows), at::kLong);
  inputs.position_ids = at::arange(length).expand({rows, length}).contiguous();
  return inputs;
}

// Two segments and padding in each row.
model::DecoderInputs PackedInputs(int64_t rows, int64_t length) {
  model::DecoderInputs inputs = Inputs(rows, length);
  inputs.segment_ids = at::full({rows, length}, -1, at::kLong);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = length / 3 + row, second = length / 2;
    inputs.segment_ids[row].narrow(0, 0, first).fill_(0);
    inputs.segment_ids[row].narrow(0, first, second).fill_(1);
    inputs.position_ids[row].narrow(0, first, second).copy_(at::arange(second));
  }
  inputs.segment_lengths = attention::SegmentLengths(inputs.segment_ids);
  return inputs;
}

class NormTest : public testing::TestWithParam<Choice> {
 protected:
  NormTest() {
    at::manual_seed(1);
    norm_.weight = at::randn({24});
    norm_.eps = 1e-5;
  }
  model::RmsNorm norm_;
  const Options options_ = OptionsOf(GetParam());
};

TEST_P(NormTest, KeepsItsStatisticsInFp32) {
  const at::Tensor x = (at::randn({6, 24}) * 50).to(at::kBFloat16);
  norm_.weight = norm_.weight.to(at::kBFloat16);
  const Normed ours = NormForward(x, norm_, options_);
  EXPECT_EQ(ours.y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(ours.rstd.scalar_type(), at::kFloat);
  EXPECT_LE(RelativeError(ours.y, norm_.Forward(x)), 4e-3);
}

TEST_P(NormTest, GradientsOfFewBitsAreRoundedNoMoreThanTheyMust) {
  const auto half = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
  const auto full = [](const at::Tensor& x) { return x.to(at::kFloat); };
  const at::Tensor x = half(at::randn({64, 4096}));
  const at::Tensor dy = half(at::randn({64, 4096}));
  const at::Tensor residual = half(at::randn({64, 4096}));
  norm_.weight = half(at::ones({4096}));
  const at::Tensor rstd = NormForward(x, norm_, options_).rstd;
  const at::Tensor ours =
      NormBackward(dy, x, rstd, norm_, residual.clone(), options_);
  norm_.weight = full(norm_.weight);
  const at::Tensor exact =
      NormBackward(full(dy), full(x), rstd, norm_, full(residual), options_);
  // Half a unit in the last place of bf16 is 2e-3 of a number.
  EXPECT_LE(RelativeError(full(ours), exact), 4e-3);
  // No row is off as a whole, as it would be by a statistic of few bits: 2e-3.
  const at::Tensor off =
      ((full(ours) - exact) * exact).sum(-1) / exact.square().sum(-1);
  EXPECT_LE(off.abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Kernels, NormTest,
                         testing::Values(Choice::kCpu, Choice::kMps));

// x and dy [rows, length, heads, dim] against the model's own rotation.
void ExpectSameRope(const model::RotaryTable& table, const RopeTable& ours,
                    int64_t rows, int64_t length, int64_t heads, int64_t dim) {
  const at::Tensor x =
      at::randn({rows, length, heads, dim}).requires_grad_(true);
  const at::Tensor dy = at::randn({rows, length, heads, dim});
  const at::Tensor y =
      model::Rotary::Apply(x.transpose(1, 2), table).transpose(1, 2);
  y.backward(dy);
  EXPECT_LE(RelativeError(RopeForward(x.detach(), ours), y), 1e-6);
  EXPECT_LE(RelativeError(RopeBackward(dy, ours), x.grad()), 1e-6);
}

TEST(RopeTest, AsMatricesIsTheSame) {
  const Tiny tiny;
  const model::RotaryTable table =
      tiny.decoder->Table(spec::LayerRope::kMain, at::arange(64).unsqueeze(0));
  for (const Choice choice : {Choice::kCuda, Choice::kMps}) {
    const Options options = OptionsOf(choice);
    const RopeTable ours = MakeRopeTable(table, 6, options);
    ASSERT_TRUE(ours.rotation.defined());
    ExpectSameRope(table, ours, 3, 64, 5, 8);
    // Position by position, in any order of x.
    const at::Tensor x = at::randn({64, 3, 5, 8}).transpose(0, 1);
    const at::Tensor y = RopeForward(x, ours);
    EXPECT_TRUE(y.transpose(0, 1).is_contiguous());
    EXPECT_TRUE(at::equal(RopeForward(x.contiguous(), ours), y));
  }
}

model::Linear Head(int64_t vocab, int64_t width) {
  model::Linear head;
  head.name = "lm_head";
  head.weight = at::randn({vocab, width}) * 0.3;
  return head;
}

// The loss under a head without an adapter.
LossHead::Result Loss(const at::Tensor& h, const model::Linear& head,
                      const at::Tensor& targets, double scale,
                      const Options& options) {
  LoraPack pack;
  return LossHead(head, options, pack).Loss(h, targets, scale);
}

class HeadTest : public testing::TestWithParam<Choice> {};

TEST_P(HeadTest, IsTheCrossEntropyWithItsGradient) {
  at::manual_seed(5);
  const model::Linear head = Head(37, 12);
  // Several pieces, and targets that are ignored.
  const int64_t rows = 600;
  const at::Tensor h = at::randn({1, rows, 12}).requires_grad_(true);
  model::LabelSelection labels;
  labels.rows = at::arange(rows);
  labels.targets = at::randint(37, {rows}, at::kLong);
  labels.targets.narrow(0, 590, 10).fill_(base::kIgnoreIndex);
  const at::Tensor sum = model::SumCrossEntropy(h, head, labels);
  (sum * 0.25).backward();
  const LossHead::Result ours =
      Loss(h.detach()[0], head, labels.targets, 0.25, OptionsOf(GetParam()));
  EXPECT_LE(RelativeError(ours.sum, sum), 1e-6);
  EXPECT_LE(RelativeError(ours.grad, h.grad()[0]), 1e-6);
  EXPECT_EQ(ours.grad.narrow(0, 590, 10).abs().max().item<float>(), 0);
}

TEST_P(HeadTest, LossesOfHopelessTargetsAreExact) {
  model::Linear head;
  head.weight = at::tensor({200.0f, 0.0f}).view({2, 1});
  const LossHead::Result ours =
      Loss(at::ones({1, 1}), head, at::tensor({int64_t{1}}), 1,
           OptionsOf(GetParam()));
  EXPECT_NEAR(ours.sum.item<double>(), 200, 1e-4);
}

// A vocabulary of several pieces of outputs, and a second call of fewer rows.
TEST(HeadOnCpuTest, KeepsItsBuffer) {
  at::manual_seed(9);
  const model::Linear head = Head(5000, 8);
  LoraPack pack;
  LossHead loss(head, {}, pack);
  const void* kept = nullptr;
  for (const int64_t rows : {24, 7, 24}) {
    const at::Tensor h = at::randn({1, rows, 8}).requires_grad_(true);
    model::LabelSelection labels;
    labels.rows = at::arange(rows);
    labels.targets = at::randint(5000, {rows}, at::kLong);
    const at::Tensor sum = model::SumCrossEntropy(h, head, labels);
    sum.backward();
    const LossHead::Result ours = loss.Loss(h.detach()[0], labels.targets, 1);
    EXPECT_LE(RelativeError(ours.sum, sum), 1e-6);
    EXPECT_LE(RelativeError(ours.grad, h.grad()[0]), 1e-6);
    if (kept == nullptr) kept = loss.buffer().data_ptr();
    EXPECT_EQ(loss.buffer().data_ptr(), kept);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, HeadTest,
                         testing::Values(Choice::kCpu, Choice::kMps));

void Fill(LoraPack& pack) {
  pack.Allocate(at::kCPU, at::kFloat);
  pack.Refresh();
}

// As many rows as threads share, and one more, which they do not.
TEST(LinearGroupOnCpuTest, ThreadsShareRows) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const Tiny tiny;
  LoraPack pack;
  const LinearGroup group({{&tiny.layer().o}}, {}, {}, pack);
  Fill(pack);
  const at::NoGradGuard no_grad;
  for (const int64_t rows : {512, 513}) {
    const at::Tensor x = at::randn({rows, 32});
    const at::Tensor residual = at::randn({rows, 16});
    LoraTape tape;
    EXPECT_LE(RelativeError(group.Forward(x, residual, tape)[0],
                            tiny.layer().o.Forward(x) + residual),
              1e-6)
        << rows;
  }
  at::set_num_threads(threads);
}

model::LabelSelection Labels(const model::DecoderInputs& inputs) {
  model::LabelSelection labels;
  const int64_t length = inputs.input_ids.size(1);
  const at::Tensor cells =
      at::arange(inputs.input_ids.numel()).view(inputs.input_ids.sizes());
  labels.rows = cells.narrow(1, 0, length - 1).flatten();
  labels.targets = inputs.input_ids.narrow(1, 1, length - 1).flatten();
  labels.count = labels.rows.numel();
  return labels;
}

using spec::Recompute;
using Case = std::tuple<Choice, Recompute, bool>;  // packed

class ExplicitStepTest : public testing::TestWithParam<Case> {
 protected:
  static Options OptionsOf(const Case& c) {
    return {{backend::TraitsOf(std::get<0>(c))}, std::get<1>(c)};
  }
  static model::DecoderInputs InputsOf(const Case& c, int64_t rows) {
    return std::get<2>(c) ? PackedInputs(rows, 12) : Inputs(rows, 12);
  }
};

// The loss and the gradients of all micro-batches, against autograd.
void ExpectGradientsOfAutograd(const Tiny& tiny, const Options& options,
                               const std::vector<model::DecoderInputs>& parts,
                               double tolerance = 1e-5) {
  double expected_loss = 0, loss = 0;
  for (const model::DecoderInputs& inputs : parts) {
    const at::Tensor sum = model::SumCrossEntropy(
        tiny.decoder->Hidden(inputs), tiny.decoder->head(), Labels(inputs));
    (sum * 0.1).backward();
    expected_loss += sum.item<double>();
  }
  const auto expected = tiny.TakeGradients();
  auto step = *ExplicitStep::Create(*tiny.decoder, tiny.parameters(), options);
  step->Begin();
  for (const model::DecoderInputs& inputs : parts) {
    loss += step->Add(inputs, Labels(inputs), 0.1).item<double>();
  }
  step->End();
  EXPECT_NEAR(loss, expected_loss, tolerance * expected_loss);
  const auto ours = tiny.TakeGradients();
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LE(RelativeError(ours[i], expected[i]), tolerance)
        << tiny.parameters().parameters()[i].name;
  }
}

TEST_P(ExplicitStepTest, GradientsAreThoseOfAutograd) {
  ExpectGradientsOfAutograd(Tiny(), OptionsOf(GetParam()),
                            {InputsOf(GetParam(), 2), InputsOf(GetParam(), 1)});
}

TEST_P(ExplicitStepTest, AdaptersMayBeginAboveTheFirstLayer) {
  spec::LoraSpec lora = Tiny::AllLinear();
  lora.target_modules = std::vector<std::string>{"v_proj", "down_proj"};
  lora.layers_to_transform = {1, 2};
  ExpectGradientsOfAutograd(Tiny("", lora), OptionsOf(GetParam()),
                            {InputsOf(GetParam(), 2)});
}

TEST_P(ExplicitStepTest, AnAdapterMayHangOnTheHead) {
  spec::LoraSpec lora = Tiny::AllLinear();
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"q_proj", "lm_head"}, {"lm_head"}}) {
    lora.target_modules = targets;
    ExpectGradientsOfAutograd(Tiny("", lora), OptionsOf(GetParam()),
                              {InputsOf(GetParam(), 2)});
  }
}

// Untied with every bias, tied with those of q, k and v, with norms of heads,
// without rope in a layer, scaled, with norms of outputs, and capped; token 3
// pads, and its row of the table gets no gradient from below.
TEST_P(ExplicitStepTest, AllWeightsHaveTheGradientsOfAutograd) {
  const Case& c = GetParam();
  const std::string pad = R"(, "pad_token_id": 3)";
  const std::string biases = R"(, "attention_bias": true, "mlp_bias": true)";
  for (const auto& [type, more] :
       {std::pair("llama", pad + biases), std::pair("qwen2", pad),
        std::pair("qwen3", pad), std::pair("llama", std::string()),
        std::pair("smollm3", std::string(R"(, "no_rope_layers": [1, 0, 1])")),
        std::pair("granite", std::string(R"(, "embedding_multiplier": 3,
            "attention_multiplier": 0.2, "residual_multiplier": 0.4,
            "logits_scaling": 1.5)")),
        std::pair("olmo3", std::string(R"(, "sliding_window": 5)")),
        std::pair("gemma2", std::string(R"(, "sliding_window": 5,
            "attn_logit_softcapping": 2, "final_logit_softcapping": 3)")),
        std::pair("gemma3_text", std::string(R"(, "sliding_window": 5,
            "sliding_window_pattern": 2)")),
        std::pair("phi3", std::string(R"(, "partial_rotary_factor": 0.5)"))}) {
    for (const bool half : {false, true}) {
      SCOPED_TRACE(type + more + (half ? ", bf16" : ""));
      const at::ScalarType dtype = half ? at::kBFloat16 : at::kFloat;
      Options options = OptionsOf(c);
      options.dtype = dtype;
      // Norms of outputs enlarge the rounding of small outputs.
      const bool enlarged = type == std::string_view("olmo3") ||
                            type == std::string_view("gemma3_text");
      const double few_bits = enlarged ? 0.15 : 0.1;
      ExpectGradientsOfAutograd(Tiny(more, std::nullopt, type, dtype), options,
                                {InputsOf(c, 2), InputsOf(c, 1)},
                                half ? few_bits : 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ExplicitStepTest,
    testing::Combine(testing::Values(Choice::kCpu, Choice::kMps),
                     testing::Values(Recompute::kNone, Recompute::kSelective,
                                     Recompute::kFull),
                     testing::Bool()));

// The first row may be the shorter one, and its padding has any position.
TEST(ExplicitStepPositionsTest, ThoseOfPaddingDoNotMatter) {
  const Tiny tiny;
  model::DecoderInputs inputs = Inputs(2, 12);
  model::LabelSelection labels = Labels(inputs);
  // Of row 0 five tokens are real; four of them have a target.
  const at::Tensor picked = at::cat({at::arange(4), at::arange(11, 22)});
  labels.rows = labels.rows.index_select(0, picked);
  labels.targets = labels.targets.index_select(0, picked);
  labels.count = picked.numel();
  auto step =
      ExplicitStep::Create(*tiny.decoder, tiny.parameters(), {}).value();
  std::vector<std::vector<at::Tensor>> grads;
  for (const bool zero : {false, true}) {
    if (zero) inputs.position_ids[0].narrow(0, 5, 7).zero_();
    step->Begin();
    step->Add(inputs, labels, 1);
    step->End();
    grads.push_back(tiny.TakeGradients());
    const at::Tensor sum = model::SumCrossEntropy(tiny.decoder->Hidden(inputs),
                                                  tiny.decoder->head(), labels);
    sum.backward();
    grads.push_back(tiny.TakeGradients());
  }
  for (size_t way = 1; way < grads.size(); ++way) {
    for (size_t i = 0; i < grads[0].size(); ++i) {
      EXPECT_LE(RelativeError(grads[way][i], grads[0][i]), 1e-5)
          << way << ", " << i;
    }
  }
}

// One step with each of what may be kept.
void ExpectNoBitChanged(
    const Tiny& tiny, const std::function<ExplicitStep&(Recompute)>& step_of) {
  const model::DecoderInputs inputs = Inputs(2, 12);
  std::vector<std::vector<at::Tensor>> grads;
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kFull, Recompute::kSelective}) {
    ExplicitStep& step = step_of(recompute);
    at::manual_seed(11);
    step.Begin();
    step.Add(inputs, Labels(inputs), 1);
    step.End();
    grads.push_back(tiny.TakeGradients());
  }
  for (size_t i = 0; i < grads[0].size(); ++i) {
    EXPECT_TRUE(at::equal(grads[0][i], grads[1][i])) << i;
    EXPECT_TRUE(at::equal(grads[0][i], grads[2][i])) << i;
  }
}

// Dropout included: its masks are kept.
TEST(ExplicitStepKeepTest, ChangesNoBit) {
  spec::LoraSpec lora = Tiny::AllLinear();
  lora.lora_dropout = 0.3;
  const Tiny tiny("", lora);
  tiny.trainable->set_training(true);
  Options options;
  std::unique_ptr<ExplicitStep> step;
  ExpectNoBitChanged(tiny, [&](Recompute recompute) -> ExplicitStep& {
    options.recompute = recompute;
    step = *ExplicitStep::Create(*tiny.decoder, tiny.parameters(), options);
    return *step;
  });
}

// As trials of it do.
TEST(ExplicitStepKeepTest, MayBeSetBetweenSteps) {
  const Tiny tiny;
  auto step = *ExplicitStep::Create(*tiny.decoder, tiny.parameters(),
                                    OptionsOf(Choice::kMps));
  ExpectNoBitChanged(tiny, [&](Recompute recompute) -> ExplicitStep& {
    step->set_recompute(recompute);
    return *step;
  });
}

// What was kept of one shape never serves another.
TEST_P(ExplicitStepTest, ShapesMayAlternate) {
  const Case& c = GetParam();
  ExpectGradientsOfAutograd(Tiny(), OptionsOf(c),
                            {InputsOf(c, 2), InputsOf(c, 1), InputsOf(c, 2),
                             Inputs(2, 12), Inputs(2, 9), InputsOf(c, 2)});
}

// Three layers, forward and back.
TEST(ExplicitStepCommitTest, ComesEveryFewLayers) {
  const Tiny tiny;
  const model::DecoderInputs inputs = Inputs(2, 12);
  auto step =
      ExplicitStep::Create(*tiny.decoder, tiny.parameters(), {}).value();
  int commits = 0;
  step->set_commit([&commits] { ++commits; });
  step->Begin();
  step->Add(inputs, Labels(inputs), 1);
  EXPECT_EQ(commits, 2);  // above the second layer, up and down
}

TEST(ExplicitStepCreateTest, SaysWhatItDoesNotCover) {
  spec::LoraSpec saved = Tiny::AllLinear();
  saved.modules_to_save = {"lm_head"};
  const Tiny with_head("", saved);
  EXPECT_EQ(ExplicitStep::Create(*with_head.decoder, with_head.parameters(), {})
                .status()
                .message(),
            "some of the model's own weights are trained");
}

}  // namespace

}  // namespace mpsd::explicit_step
