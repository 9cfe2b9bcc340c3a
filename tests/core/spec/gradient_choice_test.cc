// SPDX-License-Identifier: Apache-2.0
#include "core/spec/gradient_choice.h"

#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

constexpr char kWeights[] = "weights of the model itself are trained";

ModelConfig Decoder() {
  ModelConfig config;
  config.family = Family::kDecoder;
  return config;
}

TEST(ChooseGradientsTest, AdaptersOfALanguageModelGetTheExplicitStep) {
  EXPECT_EQ(ChooseGradients({}, Decoder()), (GradientChoice{true, ""}));
}

TEST(ChooseGradientsTest, SaysThatWeightsOfTheModelAreTrained) {
  TrainSpec full;
  full.fine_tune_type = FineTuneType::kFull;
  EXPECT_EQ(ChooseGradients(full, Decoder()),
            (GradientChoice{false, kWeights}));
  TrainSpec saved;
  saved.lora.modules_to_save = {"lm_head"};
  EXPECT_EQ(ChooseGradients(saved, Decoder()),
            (GradientChoice{false, kWeights}));
}

TEST(ChooseGradientsTest, NeedsNoReasonForWhatTheJobAsksFor) {
  TrainSpec spec;
  spec.gradients = Gradients::kAutograd;
  EXPECT_EQ(ChooseGradients(spec, Decoder()), GradientChoice());
  spec.fine_tune_type = FineTuneType::kFull;
  EXPECT_EQ(ChooseGradients(spec, Decoder()), GradientChoice());
}

TEST(ChooseGradientsTest, ClassifiersKnowAutogradAlone) {
  TrainSpec spec;
  spec.task = Task::kSeqCls;
  EXPECT_EQ(ChooseGradients(spec, Decoder()), GradientChoice());
  ModelConfig encoder;
  encoder.family = Family::kEncoder;
  EXPECT_EQ(ChooseGradients(spec, encoder), GradientChoice());
  EXPECT_EQ(ChooseGradients({}, encoder), GradientChoice());
}

}  // namespace
}  // namespace mpsd::spec
