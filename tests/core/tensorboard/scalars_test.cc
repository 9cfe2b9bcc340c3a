// SPDX-License-Identifier: Apache-2.0
#include "core/tensorboard/scalars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::tensorboard {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(ScalarsOf, AStepHasACurveForEachOfItsNumbers) {
  report::Progress step;
  step.step = 7;
  step.total_steps = 9;
  step.epoch = 0.5;
  step.loss = 1.5;
  step.learning_rate = 1e-3;
  step.grad_norm = 2;
  step.tokens = 60;
  step.label_tokens = 30;
  step.padded_tokens = 80;
  step.seconds = 0.5;
  step.data_wait_seconds = 0.25;
  step.device = "mps";
  step.memory = {1, 2, 3, 4, 5};
  step.cpu_fallback_ops = {{"aten::a", 2}};
  step.device_utilization_ratio = 0.75;
  EXPECT_THAT(ScalarsOf(step),
              UnorderedElementsAre(
                  Pair("train/epoch", 0.5), Pair("train/loss", 1.5),
                  Pair("train/learning_rate", 1e-3), Pair("train/grad_norm", 2),
                  Pair("train/step_seconds", 0.5),
                  Pair("train/data_wait_seconds", 0.25),
                  Pair("train/device_utilization_ratio", 0.75),
                  Pair("train/tokens_per_second", 120),
                  Pair("memory/current_allocated_bytes", 1),
                  Pair("memory/driver_allocated_bytes", 2),
                  Pair("memory/recommended_max_bytes", 3),
                  Pair("memory/footprint_bytes", 4),
                  Pair("memory/peak_allocated_bytes", 5)));
}

TEST(ScalarsOf, WhatAStepLacksHasNoCurve) {
  report::Progress step;
  step.step = 1;
  step.loss = 1.5;
  EXPECT_THAT(
      ScalarsOf(step),
      ElementsAre(Pair("train/epoch", 0), Pair("train/loss", 1.5),
                  Pair("train/learning_rate", 0), Pair("train/grad_norm", 0),
                  Pair("train/step_seconds", 0)));
}

TEST(ScalarsOf, AnEvaluationHasItsMetrics) {
  EXPECT_THAT(ScalarsOf(report::Evaluated{4, 2.5, 9, 0.5, {{"f1", 0.75}}}),
              ElementsAre(Pair("eval/loss", 2.5), Pair("eval/seconds", 0.5),
                          Pair("eval/f1", 0.75)));
}

}  // namespace
}  // namespace mpsd::tensorboard
