// SPDX-License-Identifier: Apache-2.0
#include "client/plot/history.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace mpsd::client {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

v1::JobEvent At(int64_t seconds) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(1000 + seconds);
  return event;
}

v1::JobEvent Step(int64_t step, double loss, int64_t seconds = 0) {
  v1::JobEvent event = At(seconds);
  event.mutable_progress()->set_step(step);
  event.mutable_progress()->set_loss(loss);
  event.mutable_progress()->set_tokens(10);
  return event;
}

v1::JobEvent Evaluation(int64_t step, double loss) {
  v1::JobEvent event = At(step);
  event.mutable_evaluated()->set_step(step);
  event.mutable_evaluated()->set_eval_loss(loss);
  return event;
}

std::string Text(const std::vector<Sample>& samples) {
  std::string text;
  for (const Sample& s : samples) {
    text += std::to_string(s.step) + ":" + std::to_string(s.value) + " ";
  }
  return text;
}

TEST(HistoryTest, StepsAndEvaluations) {
  History history("loss");
  history.Add(At(-9));  // a note
  v1::JobEvent running = At(0);
  running.mutable_state()->set_state(v1::JOB_STATE_RUNNING);
  history.Add(running);
  history.Add(Evaluation(0, 4));
  history.Add(Step(1, 3, 2));
  history.Add(Step(2, 2, 5));
  history.Add(Evaluation(2, 1));
  EXPECT_EQ(Text(history.steps()), "1:3.000000 2:2.000000 ");
  EXPECT_EQ(Text(history.evaluations()), "0:4.000000 2:1.000000 ");
  EXPECT_EQ(history.steps()[1].tokens, 20);
  EXPECT_EQ(history.steps()[1].seconds, 5);
  EXPECT_EQ(history.evaluations()[1].tokens, 20);
  EXPECT_EQ(history.resumes(), 0);
}

TEST(HistoryTest, StepsThatWereDoneAgainCountOnce) {
  History history("loss");
  history.Add(Step(1, 9));
  history.Add(Step(2, 9));
  history.Add(Evaluation(2, 9));
  history.Add(Step(3, 9));
  history.Add(Step(2, 5));
  history.Add(Evaluation(2, 4));
  EXPECT_EQ(Text(history.steps()), "1:9.000000 2:5.000000 ");
  EXPECT_EQ(Text(history.evaluations()), "2:4.000000 ");
  EXPECT_EQ(history.steps()[1].tokens, 20);
  EXPECT_EQ(history.resumes(), 1);
}

TEST(HistoryTest, MissingStepsCountAsTheNextOne) {
  History history("loss");
  history.Add(Step(10, 1));
  history.Add(Step(20, 1));
  history.Add(Step(21, 1));
  EXPECT_EQ(history.steps()[0].tokens, 100);
  EXPECT_EQ(history.steps()[2].tokens, 210);
}

TEST(HistoryTest, EveryMetricOfAStep) {
  v1::JobEvent event = Step(1, 1);
  v1::Progress& progress = *event.mutable_progress();
  progress.set_learning_rate(2);
  progress.set_grad_norm(3);
  progress.set_step_seconds(4);
  progress.set_tokens_per_second(5);
  progress.set_epoch(6);
  progress.set_padding_ratio(7);
  progress.set_data_wait_ratio(8);
  progress.set_device_utilization_ratio(9);
  progress.mutable_memory()->set_current_allocated_bytes(11);
  progress.mutable_memory()->set_peak_allocated_bytes(12);
  progress.mutable_memory()->set_driver_allocated_bytes(13);
  progress.mutable_memory()->set_footprint_bytes(14);
  std::vector<double> values;
  for (const std::string& metric : StepMetrics()) {
    EXPECT_TRUE(IsStepMetric(metric));
    History history(metric);
    history.Add(event);
    values.push_back(history.steps()[0].value);
  }
  EXPECT_THAT(values, testing::ElementsAre(1, 2, 3, 4, 5, 10, 6, 7, 8, 9, 11,
                                           12, 13, 14));
  EXPECT_FALSE(IsStepMetric("eval_loss"));
}

TEST(HistoryTest, WhatADeviceDoesNotTellIsNotZero) {
  for (const char* metric :
       {"padding_ratio", "data_wait_ratio", "device_utilization_ratio",
        "current_allocated_bytes", "peak_allocated_bytes",
        "driver_allocated_bytes", "footprint_bytes"}) {
    History history(metric);
    history.Add(Step(1, 1));
    EXPECT_TRUE(std::isnan(history.steps()[0].value)) << metric;
  }
}

TEST(HistoryTest, AMetricOfTheTask) {
  v1::JobEvent event = Evaluation(5, 2);
  (*event.mutable_evaluated()->mutable_metrics())["f1"] = 0.5;
  History f1("f1"), accuracy("accuracy"), eval_loss("eval_loss");
  for (History* history : {&f1, &accuracy, &eval_loss}) history->Add(event);
  EXPECT_EQ(Text(f1.evaluations()), "5:0.500000 ");
  EXPECT_EQ(Text(eval_loss.evaluations()), "5:2.000000 ");
  EXPECT_TRUE(accuracy.evaluations().empty());
  EXPECT_THAT(accuracy.evaluation_metrics(), testing::ElementsAre("f1"));
}

TEST(HistoryTest, ThinsOutStepsOfALongRun) {
  History history("loss", 4);
  history.Add(Evaluation(0, 4));
  for (int step = 1; step <= 4; ++step) history.Add(Step(step, step));
  EXPECT_EQ(history.steps().size(), 4u);
  history.Add(Step(5, 5));
  EXPECT_EQ(Text(history.steps()), "2:1.500000 4:3.500000 5:5.000000 ");
  EXPECT_EQ(history.steps().back().tokens, 50);
  for (int step = 6; step <= 100'000; ++step) history.Add(Step(step, 2));
  EXPECT_LE(history.steps().size(), 4u);
  EXPECT_EQ(history.steps().back().step, 100'000);
  EXPECT_EQ(history.steps().back().tokens, 1'000'000);
  EXPECT_EQ(history.evaluations().size(), 1u);
  // A NaN that was seen stays to be seen.
  history.Add(Step(100'001, NAN));
  for (int step = 100'002; step < 100'008; ++step) history.Add(Step(step, 2));
  int missing = 0;
  for (const Sample& sample : history.steps()) {
    missing += std::isnan(sample.value);
  }
  EXPECT_EQ(missing, 1);
}

TEST(RowReachedTest, WithTheProgressOfTheRow) {
  v1::Job job;
  *job.mutable_progress() = Step(2, NAN).progress();
  job.mutable_progress()->set_step_seconds(4);
  RowReached reached(job);
  EXPECT_FALSE(reached.Add(At(0)));
  EXPECT_FALSE(reached.Add(Step(2, NAN)));  // an earlier attempt's
  v1::JobEvent same = At(0);
  *same.mutable_progress() = job.progress();
  EXPECT_TRUE(reached.Add(same));
}

TEST(RowReachedTest, WithItsEvaluationToo) {
  v1::Job job;
  job.set_eval_loss_before(3);
  EXPECT_TRUE(RowReached(job).Add(Evaluation(0, 3)));
  job.set_eval_loss_after(NAN);
  *job.mutable_progress() = Step(2, 1).progress();
  RowReached reached(job);
  EXPECT_FALSE(reached.Add(Evaluation(0, 3)));
  EXPECT_FALSE(reached.Add(Step(2, 1)));
  EXPECT_TRUE(reached.Add(Evaluation(2, NAN)));
}

TEST(RowReachedTest, AtOnceWithoutAny) {
  EXPECT_TRUE(RowReached(v1::Job()).Add(At(0)));
}

std::vector<Sample> Samples(const std::vector<double>& values) {
  std::vector<Sample> samples;
  for (const double value : values) {
    samples.push_back({std::ssize(samples) + 1, 0, 0, value});
  }
  return samples;
}

TEST(SmoothedTest, HalvesTheWeightOfAStep) {
  // Fewer than 50 steps: a step halves the weight.
  EXPECT_EQ(Text(Smoothed(Samples({4, 1, 8}))),
            "1:4.000000 2:2.000000 3:5.428571 ");
  EXPECT_TRUE(Smoothed({}).empty());
}

TEST(SmoothedTest, LeavesOutWhatIsNotFinite) {
  EXPECT_EQ(Text(Smoothed(Samples({2, NAN, INFINITY, 2}))),
            "1:2.000000 4:2.000000 ");
}

TEST(SmoothedTest, OfTheLargestNumbers) {
  for (const Sample& s :
       Smoothed(Samples({kLargest, kLargest, -kLargest, kLargest}))) {
    EXPECT_TRUE(std::isfinite(s.value));
  }
}

}  // namespace
}  // namespace mpsd::client
