// SPDX-License-Identifier: Apache-2.0
// Schedules, decay groups and initial values against the tables that
// Transformers and PEFT gave (tests/golden).
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/optim/parameters.h"
#include "core/optim/schedule.h"
#include "core/spec/model_config.h"
#include "core/tensorfile/weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/parity.h"

namespace mpsd::parity {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path GoldenDir() {
  return fs::path(MPSD_TEST_SOURCE_DIR) / "tests" / "golden";
}

json ReadJson(const std::string& name) {
  std::ifstream file(GoldenDir() / name);
  EXPECT_TRUE(file.good()) << name;
  return json::parse(file, nullptr, false);
}

TEST(GoldenSchedules, EveryStepHasTheRateOfTransformers) {
  const json table = ReadJson("schedules.json");
  ASSERT_EQ(table.size(), 28u);
  for (const json& entry : table) {
    spec::TrainingSpec spec;
    spec.lr_scheduler_type = entry["lr_scheduler_type"];
    spec.learning_rate = entry["learning_rate"];
    spec.warmup_steps = entry["warmup_steps"];
    spec.warmup_ratio = entry["warmup_ratio"];
    auto schedule = optim::Schedule::Create(spec, entry["steps"]);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    int64_t step = 0;
    for (double rate : entry["learning_rates"]) {
      EXPECT_NEAR(schedule->LearningRate(step), rate, 1e-12 + 1e-12 * rate)
          << spec.lr_scheduler_type << " warmup " << spec.warmup_steps << "/"
          << spec.warmup_ratio << " step " << step;
      ++step;
    }
  }
}

TEST(GoldenSchedules, AResumedRunOfAnotherLengthHasTheRatesOfTransformers) {
  const json table = ReadJson("resumed_rates.json");
  ASSERT_EQ(table.size(), 21u);
  for (const json& entry : table) {
    spec::TrainingSpec spec;
    spec.lr_scheduler_type = entry["lr_scheduler_type"];
    spec.learning_rate = entry["learning_rate"];
    spec.warmup_ratio = entry["warmup_ratio"];
    const auto before = *optim::Schedule::Create(spec, entry["before"]);
    auto schedule = *optim::Schedule::Create(spec, entry["steps"]);
    int64_t step = 4;
    schedule.Pin(step, before.LearningRate(step));
    for (double rate : entry["learning_rates"]) {
      EXPECT_NEAR(schedule.LearningRate(step), rate, 1e-12 + 1e-12 * rate)
          << spec.lr_scheduler_type << " of " << entry["steps"] << " step "
          << step;
      ++step;
    }
    EXPECT_EQ(step, entry["steps"]);
  }
}

// A model of a golden case with fresh adapters as `lora` says.
struct Fresh {
  std::unique_ptr<model::Decoder> model;
  std::unique_ptr<lora::Adapter> adapter;
};

absl::StatusOr<Fresh> Attach(const std::string& name, const json& lora) {
  const json job = {
      {"model", "m"}, {"dataset", {{"train", {"t.jsonl"}}}}, {"lora", lora}};
  auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
  if (!spec.ok()) return spec.status();
  const fs::path folder = GoldenDir() / name / "model";
  auto config = spec::ReadModelConfig(folder.string());
  if (!config.ok()) return config.status();
  auto weights = tensorfile::Weights::Open(folder);
  if (!weights.ok()) return weights.status();
  auto model = model::Decoder::Load(**weights, *config, at::kCPU, at::kFloat);
  if (!model.ok()) return model.status();
  auto adapter = lora::Adapter::Attach(**model, spec->lora, at::kCPU);
  if (!adapter.ok()) return adapter.status();
  return Fresh{*std::move(model), *std::move(adapter)};
}

TEST(GoldenDecayGroups, AreThoseOfTrainer) {
  const json table = ReadJson("decay_groups.json");
  for (const auto& [name, entry] : table.items()) {
    auto fresh = Attach(name, entry["lora"]);
    ASSERT_TRUE(fresh.ok()) << name << ": " << fresh.status();
    std::set<std::string> decay, no_decay;
    for (const optim::Parameter& p :
         fresh->adapter->parameters().parameters()) {
      (optim::ParameterSet::Decays(p.name) ? decay : no_decay).insert(p.name);
    }
    EXPECT_EQ(decay, entry["decay"].get<std::set<std::string>>()) << name;
    EXPECT_EQ(no_decay, entry["no_decay"].get<std::set<std::string>>()) << name;
  }
}

TEST(GoldenInitialisation, IsPeftsInShapeBoundsAndSpread) {
  const json lora = {
      {"r", 16}, {"lora_alpha", 16}, {"target_modules", "all-linear"}};
  const json table = ReadJson("init.json");
  for (const auto& [name, entries] : table.items()) {
    auto fresh = Attach(name, lora);
    ASSERT_TRUE(fresh.ok()) << name << ": " << fresh.status();
    EXPECT_EQ(fresh->adapter->parameters().parameters().size(), entries.size());
    for (const auto& [parameter, entry] : entries.items()) {
      const auto* p = fresh->adapter->parameters().Find(parameter);
      ASSERT_NE(p, nullptr) << parameter;
      EXPECT_EQ(p->value.sizes().vec(),
                entry["shape"].get<std::vector<int64_t>>());
      const double bound = entry["bound"];
      const at::Tensor value = p->value.detach();
      EXPECT_LE(value.abs().max().item<double>(), bound * (1 + 1e-6));
      // Uniform: several hundred draws come close to both ends.
      EXPECT_NEAR(value.std(false).item<double>(), bound / std::sqrt(3.0),
                  bound * 0.1)
          << parameter;
      EXPECT_GE(value.max().item<double>(), bound * 0.9) << parameter;
      EXPECT_LE(value.min().item<double>(), bound * -0.9) << parameter;
    }
  }
}

}  // namespace
}  // namespace mpsd::parity
