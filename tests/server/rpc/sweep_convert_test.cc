// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sweep_convert.h"

#include <string>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PlanFrom, EveryKindOfValues) {
  v1::CreateSweepRequest request;
  request.set_strategy(v1::SWEEP_STRATEGY_RANDOM);
  auto* choices = request.add_parameters();
  choices->set_field("a");
  choices->mutable_choices()->add_values("1e-4");
  auto* uniform = request.add_parameters();
  uniform->set_field("b");
  uniform->mutable_uniform()->set_high(0.5);
  auto* logarithm = request.add_parameters();
  logarithm->set_field("c");
  logarithm->mutable_log_uniform()->set_low(1e-5);
  logarithm->mutable_log_uniform()->set_high(1);
  auto* integers = request.add_parameters();
  integers->set_field("d");
  integers->mutable_integers()->set_low(-3);
  request.set_count(7);
  request.set_seed(-8);
  request.set_eta(3);
  request.add_rungs(4);
  request.set_metric("f1");
  const auto plan = PlanFrom(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->strategy, sweeps::Strategy::kRandom);
  EXPECT_THAT(plan->parameters,
              ElementsAre(sweeps::Parameter{"a", sweeps::Choices{{"1e-4"}}},
                          sweeps::Parameter{"b", sweeps::Uniform{0, 0.5}},
                          sweeps::Parameter{"c", sweeps::LogUniform{1e-5, 1}},
                          sweeps::Parameter{"d", sweeps::Integers{-3, 0}}));
  EXPECT_EQ(plan->count, 7);
  EXPECT_EQ(plan->seed, -8);
  EXPECT_EQ(plan->eta, 3);
  EXPECT_THAT(plan->rungs, ElementsAre(4));
  EXPECT_EQ(plan->metric, "f1");

  // What a sweep shows is what was asked for.
  sweeps::Sweep sweep;
  sweep.plan = *plan;
  v1::Sweep shown;
  ToProto(sweep, {}, true, shown);
  ASSERT_EQ(shown.parameters_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(shown.parameters(i).SerializeAsString(),
              request.parameters(i).SerializeAsString());
  }
  EXPECT_EQ(shown.strategy(), v1::SWEEP_STRATEGY_RANDOM);
}

TEST(PlanFrom, WhatNoPlanHasIsRefused) {
  const auto error = [](const v1::CreateSweepRequest& request) {
    const absl::Status status = PlanFrom(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  v1::CreateSweepRequest request;
  request.set_strategy(static_cast<v1::SweepStrategy>(9));
  EXPECT_THAT(error(request), HasSubstr("strategy: this mpsd has none"));
  request.clear_strategy();
  request.add_parameters()->set_field("a\x1b");
  EXPECT_THAT(error(request), HasSubstr("a\\x1b: has no values"));
  request.clear_parameters();
  for (int i = 0; i <= limits::kSweepFields; ++i) {
    request.add_parameters()->mutable_choices()->add_values("1");
  }
  EXPECT_THAT(error(request), HasSubstr("17 entries, at most 16"));
  request.clear_parameters();
  for (int i = 0; i < 17; ++i) request.add_rungs(i + 1);
  EXPECT_THAT(error(request), HasSubstr("rungs: has 17"));
  request.clear_rungs();
  request.set_metric("a\nb");
  EXPECT_THAT(error(request), HasSubstr("metric"));
}

TEST(ToProto, ChildrenByRankWithWhatTheyReached) {
  sweeps::Sweep sweep;
  sweep.id = "S";
  sweep.owner = "ann";
  sweep.plan.parameters = {{"lora.r", sweeps::Choices{{"4", "8", "16"}}}};
  sweep.plan.metric = "loss";
  sweep.plan.rungs = {4};
  sweep.rung = 1;
  sweeps::JobsById jobs;
  for (int i = 0; i < 3; ++i) {
    sweeps::Child& child = sweep.children.emplace_back();
    child.job_id = "J" + std::to_string(i);
    child.values = {std::to_string(4 << i)};
  }
  sweep.children[1].rung = 1;
  sweep.children[0].out = "ended by its sweep";
  sweep.children[0].drop = true;
  sweep.children[0].metric = 0.9;
  jobs["J0"].state = jobs::State::kCancelled;
  jobs["J1"].state = jobs::State::kSucceeded;
  jobs["J1"].eval_loss_after = 0.25;
  jobs["J1"].progress.emplace().step = 8;
  jobs["J1"].name = "n\xff";
  v1::Sweep out;
  ToProto(sweep, jobs, true, out);
  EXPECT_EQ(out.total(), 3);
  EXPECT_EQ(out.succeeded(), 1);
  EXPECT_EQ(out.cancelled(), 1);
  EXPECT_EQ(out.best_job_id(), "J1");
  EXPECT_EQ(out.best_metric(), 0.25);
  EXPECT_EQ(out.rungs_decided(), 1);
  ASSERT_EQ(out.children_size(), 3);
  EXPECT_EQ(out.children(0).job_id(), "J1");
  EXPECT_EQ(out.children(0).rank(), 1);
  EXPECT_EQ(out.children(0).step(), 8);
  EXPECT_EQ(out.children(0).rungs_passed(), 1);
  EXPECT_EQ(out.children(0).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(out.children(1).message(), "ended by its sweep");
  EXPECT_EQ(out.children(1).metric(), 0.9);
  EXPECT_EQ(out.children(2).state(), v1::JOB_STATE_UNSPECIFIED) << "deleted";
  EXPECT_EQ(out.children(2).rank(), 0);
  EXPECT_FALSE(out.children(2).has_metric());
  EXPECT_EQ(out.children(2).position(), 2);
  EXPECT_THAT(out.children(2).values(), ElementsAre("16"));
  v1::Sweep brief;
  ToProto(sweep, jobs, false, brief);
  EXPECT_EQ(brief.children_size(), 0);
  EXPECT_EQ(brief.best_job_id(), "J1");
}

}  // namespace
}  // namespace mpsd::rpc
