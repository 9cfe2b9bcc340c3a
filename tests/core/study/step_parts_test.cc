// SPDX-License-Identifier: Apache-2.0
#include "core/study/step_parts.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/core/train/lm_job.h"

namespace mpsd::study {
namespace {

using testing_support::JobFolder;
using testing_support::RecordingObserver;

class StepPartsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto spec = spec::ParseTrainSpec(folder_.job().dump(), "job.json");
    ASSERT_TRUE(spec.ok()) << spec.status();
    context_.out_dir = folder_.path() / "out";
    context_.cache_dir = folder_.path();
    auto opened = train::Open(
        spec::ResolvePaths(*std::move(spec), folder_.path().string()), context_,
        observer_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    auto loaded = train::Load(*std::move(opened));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    auto run = train::Prepare(*std::move(loaded));
    ASSERT_TRUE(run.ok()) << run.status();
    run_.emplace(*std::move(run));
  }

  JobFolder folder_{"step_parts"};
  RecordingObserver observer_;
  train::RunContext context_;
  std::optional<train::Prepared> run_;
};

TEST_F(StepPartsTest, TimesTheLoaderWithoutMovingTheRun) {
  const auto first = run_->loader->NextStep();
  ASSERT_TRUE(first.ok());
  const data::Cursor before = run_->loader->cursor();
  const auto times = TimeBatches(*run_, 2, observer_);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(times->seconds.size(), 2u);
  for (const double seconds : times->seconds) EXPECT_GE(seconds, 0);
  EXPECT_FALSE(times->batches.empty());
  EXPECT_EQ(run_->loader->cursor(), before);
  // The batches are those that the run trains next.
  const auto next = run_->loader->NextStep();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(times->batches[0][0].tokens, (*next)[0].tokens);
}

TEST_F(StepPartsTest, TheFirstEpochsEndIsTheLoaders) {
  const int64_t steps = run_->loader->steps_per_epoch();
  ASSERT_GT(steps, 4);
  // The loader's thread has made the first two.
  EXPECT_EQ(TimeBatches(*run_, 3 * steps, observer_)->seconds.size(),
            static_cast<size_t>(steps - 2));
  // Where nothing is left that nobody read, and in later epochs.
  run_->loader->Seek({0, steps - 2});
  EXPECT_EQ(TimeBatches(*run_, 5, observer_)->seconds.size(), 5u);
  run_->loader->Seek({1, steps - 3});
  EXPECT_EQ(TimeBatches(*run_, 5, observer_)->seconds.size(), 5u);
}

TEST_F(StepPartsTest, TimesTheForwardAndTrainsNothing) {
  const auto times = TimeBatches(*run_, 4, observer_);
  ASSERT_TRUE(times.ok());
  const auto seconds = TimeForward(*run_, times->batches, observer_);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  // The first step warms up.
  EXPECT_EQ(seconds->size(), times->batches.size() - 1);
  for (const double step : *seconds) EXPECT_GT(step, 0);
  EXPECT_TRUE(observer_.steps.empty());
  EXPECT_TRUE(TimeForward(*run_, {}, observer_)->empty());
  EXPECT_EQ(TimeForward(*run_, {times->batches[0]}, observer_)->size(), 1u);
}

TEST_F(StepPartsTest, AStopEndsThem) {
  const auto times = TimeBatches(*run_, 1, observer_);
  ASSERT_TRUE(times.ok());
  observer_.request = train::StopRequest::kCancel;
  EXPECT_EQ(TimeBatches(*run_, 1, observer_).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(TimeForward(*run_, times->batches, observer_).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace mpsd::study
