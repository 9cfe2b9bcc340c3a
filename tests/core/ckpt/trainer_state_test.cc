// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/trainer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/core/golden_model.h"

namespace mpsd::ckpt {
namespace {

TEST(TrainerStateTest, DoublesComeBackBitForBit) {
  TrainerState state;
  state.step = 17;
  state.total_steps = 40;
  state.epoch = 1;
  state.step_in_epoch = 3;
  state.loss_sum = 0.1 + 0.2;
  state.tokens_seen = int64_t{1} << 40;
  state.seconds = 1e-17;
  state.eval_loss_before = 1.0 / 3;
  state.best_metric = 2.5e-300;
  state.eval_metrics = {{"f1", 1.0 / 7}, {"accuracy", 0.5}};
  state.best_step = 16;
  state.evaluations_without_gain = 2;
  state.fingerprint = "abc";
  const auto folder = testing_support::FreshFolder("trainer_state");
  ASSERT_TRUE(WriteTrainerState(folder, state).ok());
  auto read = ReadTrainerState(folder);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, state);
}

TEST(TrainerStateTest, AMetricMayBeNoNumber) {
  TrainerState state;
  state.eval_metrics = {{"pearson", std::numeric_limits<double>::quiet_NaN()}};
  const auto folder = testing_support::FreshFolder("trainer_state_nan");
  ASSERT_TRUE(WriteTrainerState(folder, state).ok());
  auto read = ReadTrainerState(folder);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::isnan(read->eval_metrics.at(0).second));
}

TEST(TrainerStateTest, AMissingFileAndABrokenOneDiffer) {
  const auto folder = testing_support::FreshFolder("trainer_state_bad");
  EXPECT_EQ(ReadTrainerState(folder).status().code(),
            absl::StatusCode::kNotFound);
  std::ofstream(folder / "trainer_state.json") << R"({"step": "one"})";
  EXPECT_EQ(ReadTrainerState(folder).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mpsd::ckpt
