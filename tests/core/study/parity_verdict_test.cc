// SPDX-License-Identifier: Apache-2.0
#include "core/study/parity_verdict.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::study {
namespace {

using runbook::Finding;
using runbook::Thresholds;
using runbook::Verdict;
using testing::HasSubstr;

ParityTrace AnyRun() {
  ParityTrace trace;
  trace.device = "cpu";
  trace.dtype = "fp32";
  trace.losses = {3, 2, 1};
  trace.grad_norms = {1, 1, 1};
  trace.batches = {"a", "b", "c"};
  trace.start = "s";
  return trace;
}

const Finding& Find(const ParityVerdict& verdict, const std::string& name) {
  for (const Finding& finding : verdict.findings) {
    if (finding.name == name) return finding;
  }
  static const Finding none{"none", Verdict::kNotTold, ""};
  ADD_FAILURE() << "no finding " << name;
  return none;
}

DeltaTable Deltas(float gradient_error = 0) {
  DeltaTable deltas;
  const std::vector<float> one = {1, 1};
  deltas.Add("good", TensorRole::kGradient, one, one);
  deltas.Add("bad", TensorRole::kGradient,
             std::vector<float>{1 + gradient_error, 1}, one);
  deltas.Add("good", TensorRole::kLastValue, one, one);
  return deltas;
}

ParityVerdict Judge(const ParityTrace& run, const ParityTrace& reference,
                    const DeltaTable& deltas = Deltas(),
                    const Thresholds& thresholds = {}) {
  return JudgeTraces(run, reference, deltas, thresholds);
}

TEST(JudgeTraces, EqualRunsPass) {
  const ParityVerdict verdict = Judge(AnyRun(), AnyRun());
  EXPECT_EQ(runbook::Worst(verdict.findings), Verdict::kPass);
  ASSERT_EQ(verdict.steps.size(), 3u);
  EXPECT_EQ(verdict.steps[2].step, 3);
  EXPECT_EQ(verdict.steps[2].difference, 0);
  EXPECT_EQ(Find(verdict, "parity.metric").verdict, Verdict::kNotTold);
}

TEST(JudgeTraces, ALossBeyondTheToleranceFails) {
  ParityTrace other = AnyRun();
  other.losses[1] = 2.0009;  // 4.5e-4 of it
  EXPECT_EQ(Find(Judge(AnyRun(), other), "parity.loss").verdict,
            Verdict::kPass);
  other.losses[1] = 2.0011;  // 5.5e-4
  const ParityVerdict verdict = Judge(AnyRun(), other);
  const Finding& loss = Find(verdict, "parity.loss");
  EXPECT_EQ(loss.verdict, Verdict::kFail);
  EXPECT_THAT(loss.found, HasSubstr("step 2"));
  EXPECT_THAT(loss.advice, HasSubstr("mpsd-worker --selftest"));
  EXPECT_NEAR(*loss.value, 5.5e-4, 1e-6);
  EXPECT_EQ(*loss.threshold, 5e-4);
  EXPECT_EQ(Find(Judge(AnyRun(), other, Deltas(),
                       *Thresholds::FromMap({{"parity.loss_fp32", 1e-3}})),
                 "parity.loss")
                .verdict,
            Verdict::kPass);
}

TEST(JudgeTraces, AWrongGradientFailsAndIsNamed) {
  const ParityVerdict verdict = Judge(AnyRun(), AnyRun(), Deltas(1e-3f));
  const Finding& gradient = Find(verdict, "parity.gradient");
  EXPECT_EQ(gradient.verdict, Verdict::kFail);
  EXPECT_THAT(gradient.found, HasSubstr("bad"));
  EXPECT_EQ(
      Find(Judge(AnyRun(), AnyRun(), Deltas(1e-5f)), "parity.gradient").verdict,
      Verdict::kPass);
}

TEST(JudgeTraces, BatchesThatDifferAreNoMatterOfTheDevice) {
  ParityTrace other = AnyRun();
  other.batches[2] = "x";
  const ParityVerdict verdict = Judge(AnyRun(), other);
  EXPECT_EQ(Find(verdict, "parity.data").verdict, Verdict::kFail);
  EXPECT_THAT(Find(verdict, "parity.data").found, HasSubstr("step 3"));
  other = AnyRun();
  other.start = "t";
  EXPECT_EQ(Find(Judge(AnyRun(), other), "parity.start").verdict,
            Verdict::kFail);
}

TEST(JudgeTraces, AnotherDtypeWarnsAndHasItsTolerances) {
  ParityTrace other = AnyRun();
  other.dtype = "bf16";
  other.losses[1] = 2.02;
  for (const ParityVerdict& verdict :
       {Judge(AnyRun(), other), Judge(other, AnyRun())}) {
    EXPECT_EQ(verdict.dtype, "bf16");
    EXPECT_EQ(Find(verdict, "parity.dtype").verdict, Verdict::kWarn);
    EXPECT_EQ(Find(verdict, "parity.loss").verdict, Verdict::kPass);
    EXPECT_EQ(runbook::Worst(verdict.findings), Verdict::kWarn);
  }
}

TEST(JudgeTraces, TheMetricHasATolerance) {
  ParityTrace ours = AnyRun(), theirs = AnyRun();
  ours.metric = theirs.metric = "accuracy";
  ours.metric_value = 0.900;
  theirs.metric_value = 0.904;
  ParityVerdict verdict = Judge(ours, theirs);
  EXPECT_TRUE(verdict.metric_compared);
  EXPECT_EQ(Find(verdict, "parity.metric").verdict, Verdict::kPass);
  theirs.metric_value = 0.91;
  verdict = Judge(ours, theirs);
  EXPECT_EQ(Find(verdict, "parity.metric").verdict, Verdict::kFail);
  EXPECT_EQ(verdict.reference_metric, 0.91);
  theirs.metric = "f1";
  EXPECT_EQ(Find(Judge(ours, theirs), "parity.metric").verdict,
            Verdict::kNotTold);
}

TEST(JudgeTraces, OnlySharedStepsCount) {
  ParityTrace other = AnyRun();
  other.losses.resize(1);
  other.grad_norms.resize(1);
  const ParityVerdict verdict = Judge(AnyRun(), other);
  EXPECT_EQ(verdict.steps.size(), 1u);
  EXPECT_EQ(Find(verdict, "parity.values").verdict, Verdict::kNotTold);
}

TEST(JudgeTraces, NothingTrainedInCommonIsNotTold) {
  const ParityVerdict verdict = Judge(AnyRun(), AnyRun(), {});
  EXPECT_EQ(Find(verdict, "parity.gradient").verdict, Verdict::kNotTold);
  EXPECT_EQ(Find(verdict, "parity.values").verdict, Verdict::kNotTold);
}

RecordedRun Record() {
  RecordedRun record;
  record.steps = {1, 2, 3};
  record.losses = {3.000004, 2.000003, 1.0000001};
  return record;
}

TEST(JudgeRecorded, WithinTheTolerancePasses) {
  const ParityVerdict verdict =
      JudgeRecorded(AnyRun(), {5, 5, 5}, Record(), std::nullopt, false, {});
  EXPECT_EQ(runbook::Worst(verdict.findings), Verdict::kPass);
  EXPECT_EQ(Find(verdict, "parity.data").verdict, Verdict::kNotTold);
}

TEST(JudgeRecorded, OneWrongFigureIsFoundWithItsStep) {
  RecordedRun record = Record();
  record.losses[1] = 2.1;
  const ParityVerdict verdict =
      JudgeRecorded(AnyRun(), {5, 5, 5}, record, std::nullopt, false, {});
  EXPECT_EQ(Find(verdict, "parity.loss").verdict, Verdict::kFail);
  EXPECT_THAT(Find(verdict, "parity.loss").found, HasSubstr("at step 2"));
}

// Transformers with logging_steps=2 writes the mean of two losses.
TEST(JudgeRecorded, ALossStandsForTheStepsBehindTheOneBefore) {
  RecordedRun record;
  record.steps = {2, 3};
  record.losses = {2.500001, 1.000001};
  const ParityVerdict verdict =
      JudgeRecorded(AnyRun(), {5, 5, 5}, record, std::nullopt, false, {});
  EXPECT_EQ(Find(verdict, "parity.loss").verdict, Verdict::kPass);
  EXPECT_DOUBLE_EQ(verdict.steps[0].loss, 2.5);
}

TEST(JudgeRecorded, WhatIsRoundedAwayIsNoDifference) {
  ParityTrace run = AnyRun();
  run.losses = {0.01234, 0.0235, 0.04};
  RecordedRun record;
  record.steps = {1, 2, 3};
  record.losses = {0.0123, 0.0235, 0.04};
  EXPECT_DOUBLE_EQ(RoundingOf(record.losses), 0.5e-4);
  EXPECT_EQ(Find(JudgeRecorded(run, {5, 5, 5}, record, std::nullopt, false, {}),
                 "parity.loss")
                .verdict,
            Verdict::kPass);
  // Control: the same difference in a record with more decimals.
  record.losses[2] = 0.0400001;
  EXPECT_EQ(RoundingOf(record.losses), 0);
  EXPECT_EQ(Find(JudgeRecorded(run, {5, 5, 5}, record, std::nullopt, false, {}),
                 "parity.loss")
                .verdict,
            Verdict::kFail);
  // A whole unit is more than rounding.
  record.losses = {0.0122, 0.0235, 0.04};
  EXPECT_EQ(Find(JudgeRecorded(run, {5, 5, 5}, record, std::nullopt, false, {}),
                 "parity.loss")
                .verdict,
            Verdict::kFail);
}

TEST(JudgeRecorded, OtherLabelTokensAreOtherBatches) {
  RecordedRun record = Record();
  record.label_tokens = {5, 6, 5};
  const ParityVerdict verdict =
      JudgeRecorded(AnyRun(), {5, 5, 5}, record, std::nullopt, false, {});
  EXPECT_EQ(Find(verdict, "parity.data").verdict, Verdict::kFail);
  EXPECT_THAT(Find(verdict, "parity.data").found, HasSubstr("step 2"));
  record.label_tokens = {5, 5, 5};
  EXPECT_EQ(
      Find(JudgeRecorded(AnyRun(), {5, 5, 5}, record, std::nullopt, false, {}),
           "parity.data")
          .verdict,
      Verdict::kPass);
}

TEST(JudgeRecorded, DropoutWarns) {
  const ParityVerdict verdict =
      JudgeRecorded(AnyRun(), {5, 5, 5}, Record(), std::nullopt, true, {});
  EXPECT_EQ(Find(verdict, "parity.dropout").verdict, Verdict::kWarn);
}

TEST(JudgeRecorded, ComparesTheMetric) {
  RecordedRun record = Record();
  record.metric = "accuracy";
  record.metric_value = 0.8;
  record.metric_step = 3;
  ParityVerdict verdict =
      JudgeRecorded(AnyRun(), {5, 5, 5}, record, 0.8, false, {});
  EXPECT_EQ(Find(verdict, "parity.metric").verdict, Verdict::kPass);
  verdict = JudgeRecorded(AnyRun(), {5, 5, 5}, record, 0.7, false, {});
  EXPECT_EQ(Find(verdict, "parity.metric").verdict, Verdict::kFail);
  verdict = JudgeRecorded(AnyRun(), {5, 5, 5}, record, std::nullopt, false, {});
  EXPECT_EQ(Find(verdict, "parity.metric").verdict, Verdict::kNotTold);
}

TEST(JudgeRecorded, StepsBeyondTheRunDoNotCount) {
  RecordedRun record = Record();
  record.steps = {1, 2, 30};
  const ParityVerdict verdict =
      JudgeRecorded(AnyRun(), {5, 5, 5}, record, std::nullopt, false, {});
  EXPECT_EQ(verdict.steps.size(), 2u);
  record.steps = {28, 29, 30};
  EXPECT_EQ(
      Find(JudgeRecorded(AnyRun(), {5, 5, 5}, record, std::nullopt, false, {}),
           "parity.loss")
          .verdict,
      Verdict::kNotTold);
}

}  // namespace
}  // namespace mpsd::study
