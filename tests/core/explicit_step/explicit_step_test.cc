// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/explicit_step.h"

#include <functional>
#include <tuple>

#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
namespace {

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

// Two micro-batches, against autograd.
void ExpectGradientsOfAutograd(const Tiny& tiny, const Options& options,
                               const std::vector<model::DecoderInputs>& parts) {
  double expected_loss = 0, loss = 0;
  for (const model::DecoderInputs& inputs : parts) {
    const at::Tensor sum = model::SumCrossEntropy(
        tiny.decoder->Hidden(inputs), tiny.decoder->head(), Labels(inputs));
    (sum * 0.1).backward();
    expected_loss += sum.item<double>();
  }
  const auto expected = tiny.TakeGradients();
  auto step = *ExplicitStep::Create(*tiny.decoder, tiny.trained(), options);
  step->Begin();
  for (const model::DecoderInputs& inputs : parts) {
    loss += step->Add(inputs, Labels(inputs), 0.1).item<double>();
  }
  step->End();
  EXPECT_NEAR(loss, expected_loss, 1e-5 * expected_loss);
  const auto ours = tiny.TakeGradients();
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LE(RelativeError(ours[i], expected[i]), 1e-5) << i;
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
  auto step = ExplicitStep::Create(*tiny.decoder, tiny.trained(), {}).value();
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
  tiny.adapter->set_training(true);
  Options options;
  std::unique_ptr<ExplicitStep> step;
  ExpectNoBitChanged(tiny, [&](Recompute recompute) -> ExplicitStep& {
    options.recompute = recompute;
    step = *ExplicitStep::Create(*tiny.decoder, tiny.trained(), options);
    return *step;
  });
}

// As trials of it do.
TEST(ExplicitStepKeepTest, MayBeSetBetweenSteps) {
  const Tiny tiny;
  auto step = *ExplicitStep::Create(*tiny.decoder, tiny.trained(),
                                    OptionsOf(Choice::kMps));
  ExpectNoBitChanged(tiny, [&](Recompute recompute) -> ExplicitStep& {
    step->set_recompute(recompute);
    return *step;
  });
}

// What is kept of a shape serves its next micro-batch, whatever came between.
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
  auto step = ExplicitStep::Create(*tiny.decoder, tiny.trained(), {}).value();
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
  EXPECT_EQ(ExplicitStep::Create(*with_head.decoder, with_head.trained(), {})
                .status()
                .message(),
            "weights of the model itself are trained");
}

}  // namespace
}  // namespace mpsd::explicit_step
