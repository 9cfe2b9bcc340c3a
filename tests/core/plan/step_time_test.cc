// SPDX-License-Identifier: Apache-2.0
#include "core/plan/step_time.h"

#include "core/backend/traits.h"
#include "core/plan/chips.h"
#include "gtest/gtest.h"
#include "tests/core/plan/jobs.h"

namespace mpsd::plan {
namespace {

class StepTimeTest : public testing::Test {
 protected:
  StepTimes Times(const Rates* rates) const {
    return StepTimes({spec_, model_, traits_, epoch_, 1024, 1.0}, rates,
                     facts_);
  }

  const spec::TrainSpec spec_ = LoraJob();
  const spec::ModelConfig model_ = HalfBillion();
  const backend::Traits& traits_ = backend::TraitsOf(backend::Choice::kMps);
  // Two steps: of long rows and of short ones.
  const Epoch epoch_{.steps = 2,
                     .tokens = 8 * 1024 + 8 * 256,
                     .padded_tokens = 8 * 1024 + 8 * 256,
                     .batches = {{{8, 1024}, 1}, {{8, 256}, 1}}};
  const Rates rates_ = RatesOf(*FindChip("Apple M2 Max", 38));
  Facts facts_;
};

TEST_F(StepTimeTest, NobodyTells) {
  const StepTimes times = Times(nullptr);
  EXPECT_EQ(times.source(), TimeSource::kNotTold);
  EXPECT_FALSE(times.Seconds(spec_, epoch_).has_value());
  EXPECT_FALSE(times.EvaluationSeconds(epoch_).has_value());
  EXPECT_FALSE(times.roofline_seconds().has_value());
  EXPECT_GT(times.cost().operations(), 0);
}

TEST_F(StepTimeTest, TheRoofline) {
  const StepTimes times = Times(&rates_);
  EXPECT_EQ(times.source(), TimeSource::kRoofline);
  EXPECT_DOUBLE_EQ(*times.Seconds(spec_, epoch_),
                   2 * *times.roofline_seconds());
  // Not below the products' time at the attained rate, nor far above it.
  const double least = times.cost().operations() / rates_.half_operations;
  EXPECT_GT(*times.roofline_seconds(), least);
  EXPECT_LT(*times.roofline_seconds(), 2 * least);
  EXPECT_LT(*times.EvaluationSeconds(epoch_), *times.Seconds(spec_, epoch_));
}

TEST_F(StepTimeTest, RatesWithoutAFigureAreNone) {
  Rates rates = rates_;
  rates.half_operations = 0;
  EXPECT_EQ(Times(&rates).source(), TimeSource::kNotTold);
}

TEST_F(StepTimeTest, TheHistoryByTokensThenBySteps) {
  facts_.pace = Pace{3, 7.0, 0};
  EXPECT_NEAR(*Times(&rates_).Seconds(spec_, epoch_), 14, 1e-9);
  facts_.pace = Pace{3, 7.0, 1024};
  const StepTimes times = Times(&rates_);
  EXPECT_EQ(times.source(), TimeSource::kHistory);
  EXPECT_NEAR(*times.Seconds(spec_, epoch_), 10, 1e-9);
  facts_.pace->runs = 0;
  EXPECT_EQ(Times(&rates_).source(), TimeSource::kRoofline);
}

// The probe's steps are all of long rows; the job's are not.
TEST_F(StepTimeTest, AProbeIsOfTheLongestRows) {
  facts_.probe = ProbeFigures{.step_seconds = 8};
  facts_.pace = Pace{3, 7.0, 0};
  const StepTimes times = Times(&rates_);
  EXPECT_EQ(times.source(), TimeSource::kProbe);
  const double epoch = *times.Seconds(spec_, epoch_);
  EXPECT_GT(epoch, 8 + 1.5);
  EXPECT_LT(epoch, 8 + 2.5);
}

// Without rates other jobs differ by their operations.
TEST_F(StepTimeTest, ARunsTimeIsScaledToOtherJobs) {
  facts_.pace = Pace{1, 5.0, 0};
  const StepTimes times = Times(nullptr);
  EXPECT_EQ(times.source(), TimeSource::kHistory);
  EXPECT_NEAR(*times.Seconds(spec_, epoch_), 10, 1e-9);
  spec::TrainSpec other = spec_;
  other.training.set_recompute(spec::Recompute::kFull);
  EXPECT_GT(*times.Seconds(other, epoch_), 11);
  EXPECT_LT(*times.Seconds(other, epoch_), 14);
}

TEST_F(StepTimeTest, NamesAreTheApis) {
  EXPECT_STREQ(NameOf(TimeSource::kNotTold), "PLAN_SOURCE_UNSPECIFIED");
  EXPECT_STREQ(NameOf(TimeSource::kProbe), "PLAN_SOURCE_PROBE");
}

}  // namespace
}  // namespace mpsd::plan
