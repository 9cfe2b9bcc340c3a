// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.h"

#include <set>

#include "core/base/file.h"
#include "core/runbook/finding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/plan/jobs.h"

namespace mpsd::plan {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class PlanTest : public testing::Test {
 protected:
  PlanTest() {
    facts_.chip = "Apple M2 Max";
    facts_.gpu_cores = 38;
    facts_.memory_limit_bytes = int64_t{48} << 30;
    facts_.disk_free_bytes = int64_t{100} << 30;
    spec_.training.num_train_epochs = 2;
  }
  json Make() const {
    return MakePlan({.spec = spec_,
                     .model = model_,
                     .model_folder = "/models/m",
                     .rows = {&train_, eval_, nullptr},
                     .device = backend::Choice::kMps,
                     .facts = facts_,
                     .warmup_steps = [](int64_t total) { return total / 10; },
                     .warnings = warnings_});
  }
  json Finding(const json& plan, const std::string& name) const {
    for (const json& finding : plan["findings"]) {
      if (finding["name"] == name) return finding;
    }
    return json::object();
  }

  spec::TrainSpec spec_ = LoraJob();
  spec::ModelConfig model_ = HalfBillion();
  const CountedRows train_ = RowsUpTo(1000);
  const CountedRows rows_of_eval_ = RowsUpTo(100, 20);
  const CountedRows* eval_ = nullptr;
  Facts facts_;
  std::vector<std::string> warnings_;
};

TEST_F(PlanTest, AJobThatFits) {
  const json plan = Make();
  EXPECT_EQ(Finding(plan, "plan.memory")["verdict"], "VERDICT_PASS");
  EXPECT_EQ(plan["steps"]["steps_per_epoch"], 8);
  EXPECT_EQ(plan["steps"]["total_steps"], 16);
  EXPECT_EQ(plan["steps"]["warmup_steps"], 1);
  EXPECT_EQ(plan["steps"]["evaluations"], 0);
  EXPECT_EQ(plan["steps"]["checkpoints"], 1);
  EXPECT_EQ(plan["model"]["gradients"], "explicit step");
  EXPECT_EQ(plan["model"]["dtype"], "bfloat16");
  EXPECT_EQ(plan["model"]["trainable_parameters"],
            spec::TrainableParameterCount(spec_, model_));
  EXPECT_EQ(plan["memory"]["source"], "PLAN_SOURCE_ESTIMATE");
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_ROOFLINE");
  EXPECT_THAT(plan["time"]["rates"].get<std::string>(),
              HasSubstr("Apple M2 Max (38 GPU cores)"));
  EXPECT_NEAR(plan["time"]["total_seconds"].get<double>(),
              16 * plan["time"]["seconds_per_step"].get<double>(), 1e-6);
  EXPECT_FALSE(plan.contains("alternatives"));
  EXPECT_FALSE(plan["data"].contains("eval"));
}

TEST_F(PlanTest, EvaluationsAndCheckpointsAreThoseOfTheLoop) {
  eval_ = &rows_of_eval_;
  spec_.training.eval_steps = 5;
  spec_.training.save_steps = 8;
  const json plan = Make();
  EXPECT_EQ(plan["steps"]["evaluations"], 5);  // 0 5 10 15 16
  EXPECT_EQ(plan["steps"]["checkpoints"], 2);  // 8 16
  EXPECT_GT(plan["time"]["evaluation_seconds"].get<double>(), 0);
  EXPECT_EQ(plan["data"]["eval"]["rows"], 20);
  spec_.training.eval_steps = 0;
  EXPECT_EQ(Make()["steps"]["evaluations"], 3);  // 0 8 16
}

TEST_F(PlanTest, AJobThatDoesNotFitGetsAlternatives) {
  facts_.memory_limit_bytes = int64_t{3} << 30;
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Finding(plan, "plan.memory")["found"].get<std::string>(),
              HasSubstr("GiB of 3.00 GiB"));
  ASSERT_GT(plan["alternatives"].size(), 0u);
  for (const json& a : plan["alternatives"]) {
    EXPECT_LE(a["memory_bytes"], 0.9 * (int64_t{3} << 30));
    EXPECT_GT(a["total_seconds"].get<double>(), 0);
  }
}

TEST_F(PlanTest, NoAlternativeIsAFinding) {
  facts_.memory_limit_bytes = 1 << 20;
  const json plan = Make();
  EXPECT_THAT(Finding(plan, "plan.memory")["found"].get<std::string>(),
              HasSubstr("GiB of 1.0 MiB"));
  EXPECT_EQ(plan["alternatives"].size(), 0u);
  EXPECT_EQ(Finding(plan, "plan.alternatives")["verdict"], "VERDICT_FAIL");
}

TEST_F(PlanTest, AlmostTooMuchIsAWarning) {
  const int64_t bytes = Make()["memory"]["peak_bytes"];
  facts_.memory_limit_bytes = bytes + bytes / 20;
  const json plan = Make();
  EXPECT_EQ(Finding(plan, "plan.memory")["verdict"], "VERDICT_WARN");
  EXPECT_FALSE(plan.contains("alternatives"));
  facts_.memory_limit_bytes = bytes;
  EXPECT_EQ(Finding(Make(), "plan.memory")["verdict"], "VERDICT_WARN");
  facts_.memory_limit_bytes = bytes - 1;
  EXPECT_EQ(Make()["verdict"], "VERDICT_FAIL");
}

TEST_F(PlanTest, SmallModelsHaveSmallUnits) {
  model_.hidden_size = model_.intermediate_size = 16;
  model_.vocab_size = 100;
  model_.num_hidden_layers = 1;
  facts_.disk_free_bytes = int64_t{1} << 40;
  spec_.training.max_length = 16;
  spec_.training.per_device_train_batch_size = 1;
  const json plan = Make();
  EXPECT_THAT(Finding(plan, "plan.memory")["found"].get<std::string>(),
              HasSubstr(" KiB of 48.00 GiB"));
  EXPECT_THAT(Finding(plan, "plan.disk")["found"].get<std::string>(),
              HasSubstr(" KiB of 1.00 TiB free"));
}

TEST_F(PlanTest, NothingIsMadeUp) {
  facts_ = Facts();
  const json plan = Make();
  EXPECT_EQ(Finding(plan, "plan.memory")["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_EQ(Finding(plan, "plan.time")["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_EQ(Finding(plan, "plan.disk")["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_FALSE(plan["memory"].contains("limit_bytes"));
  EXPECT_FALSE(plan["disk"].contains("free_bytes"));
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_UNSPECIFIED");
  EXPECT_FALSE(plan["time"].contains("seconds_per_step"));
  EXPECT_FALSE(plan["data"]["samplings"][0].contains("seconds_per_epoch"));
}

TEST_F(PlanTest, AProbesFiguresReplaceTheEstimates) {
  facts_.probe = ProbeFigures{.step_seconds = 2, .peak_bytes = 12345678};
  json plan = Make();
  EXPECT_EQ(plan["memory"]["source"], "PLAN_SOURCE_PROBE");
  EXPECT_EQ(plan["memory"]["peak_bytes"], 12345678);
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_PROBE");
  EXPECT_LT(plan["time"]["seconds_per_step"].get<double>(), 2);
  facts_.probe->out_of_memory = true;
  plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Finding(plan, "plan.memory")["found"].get<std::string>(),
              HasSubstr("ran out of memory"));
}

TEST_F(PlanTest, TooManyTokensForTheDeviceDoNotFit) {
  spec_.training.per_device_train_batch_size = 64;
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Finding(plan, "plan.device_limit")["found"].get<std::string>(),
              HasSubstr("computes wrong gradients"));
  ASSERT_GT(plan["alternatives"].size(), 0u);
}

TEST_F(PlanTest, TooLittleDiskDoesNotFit) {
  facts_.disk_free_bytes = 1000;
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Finding(plan, "plan.disk")["advice"].get<std::string>(),
              HasSubstr("save_total_limit"));
}

TEST_F(PlanTest, MuchPaddingNamesTheStrategyThatHasLess) {
  EXPECT_EQ(facts_.thresholds.Get("plan.padding"), 0.3);
  facts_.thresholds = *runbook::Thresholds::FromMap({{"plan.padding", 0.01}});
  const json finding = Finding(Make(), "plan.padding");
  EXPECT_EQ(finding["verdict"], "VERDICT_WARN");
  EXPECT_THAT(finding["advice"].get<std::string>(), HasSubstr(" would have "));
}

TEST_F(PlanTest, WarningsOfTheRunAreFindings) {
  warnings_ = {"lora.r has no effect \xff"};
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_WARN");
  EXPECT_EQ(Finding(plan, "plan.job")["found"], warnings_[0]);
}

// Every member is a field of the .proto, which the server reads it with.
TEST_F(PlanTest, TheProtoHasEveryMember) {
  facts_.memory_limit_bytes = int64_t{3} << 30;
  eval_ = &rows_of_eval_;
  const std::string proto = *base::ReadFile(std::string(MPSD_TEST_SOURCE_DIR) +
                                            "/proto/mpsd/v1/plan.proto");
  std::set<std::string> names;
  const auto collect = [&names](const json& node, const auto& self) -> void {
    if (node.is_array()) {
      for (const json& item : node) self(item, self);
    } else if (node.is_object()) {
      for (const auto& [name, value] : node.items()) {
        names.insert(name);
        if (name != "findings") self(value, self);
      }
    }
  };
  collect(Make(), collect);
  EXPECT_GT(names.size(), 60u);
  for (const std::string& name : names) {
    EXPECT_THAT(proto, HasSubstr(" " + name + " = ")) << name;
  }
}

}  // namespace
}  // namespace mpsd::plan
