// SPDX-License-Identifier: Apache-2.0
#include "core/train/preferences.h"

#include <ATen/ATen.h>

#include <cmath>
#include <fstream>
#include <string>
#include <tuple>

#include "core/train/stages.h"
#include "tests/core/relative_error.h"
#include "tests/core/train/train_jobs.h"
#include "tests/tools/parity.h"

// Whole jobs from job.json on, against TRL's trainers on the same rows.

namespace mpsd::train {
namespace {

struct Way {
  const char* name;
  const char* job;  // a merge patch
};
constexpr Way kWays[] = {
    {"explicit", "{}"},
    {"autograd", R"({"gradients": "autograd"})"},
    {"recomputed", R"({"training": {"gradient_checkpointing": true,
                                    "recompute_granularity": "selective"}})"},
    {"pair_by_pair", R"({"training": {"per_device_train_batch_size": 1,
                                      "gradient_accumulation_steps": 4}})"}};

json GoldenValues() {
  return json::parse(*base::ReadFile(Golden("", "preferences.json")));
}

class GoldenPreferences
    : public testing::TestWithParam<std::tuple<std::string, Way>> {
 protected:
  GoldenPreferences() {
    const json golden = GoldenValues();
    const json& values = golden["cases"][std::get<0>(GetParam())];
    steps_ = values["steps"];
    std::ofstream rows(folder_ / "train.jsonl");
    for (const json& row : values["rows"]) rows << row.dump() << "\n";
    job_ = {{"model", Golden("smollm", "model")},
            {"adapter", Golden("smollm", "adapter")},
            {"dataset", {{"train", "train.jsonl"}}},
            {"preference", values["preference"]},
            {"training", golden["training"]},
            {"device", "cpu"}};
    job_["training"]["train_sampling_strategy"] = "sequential";
    job_.merge_patch(json::parse(std::get<1>(GetParam()).job));
  }

  const fs::path folder_ = FreshFolder("golden_preferences");
  json job_, steps_;
};

TEST_P(GoldenPreferences, TwentyStepsAreThoseOfTrl) {
  RecordingObserver observer;
  ASSERT_THAT(Train(job_, folder_, "out", observer), IsOk());
  ASSERT_EQ(observer.steps.size(), 20u);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const report::Progress& step = observer.steps[i];
    json want = steps_[i];
    const double loss = want["loss"], norm = want["grad_norm"];
    EXPECT_NEAR(step.loss, loss, 1e-4 * std::abs(loss)) << i;
    EXPECT_NEAR(step.grad_norm, norm, 1e-3 * norm) << i;
    // At the first step the model is the reference: which margin is above 0 is
    // rounding.
    const bool equal = want.value("rewards/margins", 1.0) == 0;
    want.erase("loss");
    want.erase("grad_norm");
    ASSERT_EQ(step.metrics.size(), want.size());
    for (const auto& [name, value] : step.metrics) {
      if (equal && name == "rewards/accuracies") continue;
      const double metric = want.value(name, NAN);
      EXPECT_NEAR(value, metric, 1e-4 * std::max(1.0, std::abs(metric)))
          << name << " of step " << i;
    }
  }
}

TEST_P(GoldenPreferences, GradientsAreThoseOfTrl) {
  const auto golden =
      *parity::ReadTensors(Golden("", "preferences.safetensors"));
  RecordingObserver observer;
  RunContext context;
  context.out_dir = folder_ / "out";
  auto spec = spec::ParseTrainSpec(job_.dump(), "job.json").value();
  Loaded loaded =
      Load(Open(spec::ResolvePaths(spec, folder_.string()), context, observer)
               .value())
          .value();
  optim::AdamW optimizer(loaded.trainable->parameters(), loaded.spec->training);
  Stepper stepper(loaded.subject(), optimizer, 0);
  data::Loader loader(*loaded.data.train,
                      loaded.shapes().TrainOptions(
                          loaded.spec->training.per_device_train_batch_size));
  stepper.AccumulateGradients(loader.NextStep().value());
  size_t compared = 0;
  for (const auto& p : loaded.trainable->parameters().parameters()) {
    const auto want = golden.find(std::get<0>(GetParam()) + ".grad." + p.name);
    ASSERT_NE(want, golden.end()) << p.name;
    EXPECT_LE(parity::RelativeError(p.value.grad(), want->second), 1e-5)
        << p.name;
    ++compared;
  }
  EXPECT_EQ(compared, 28u);
}

INSTANTIATE_TEST_SUITE_P(Trainers, GoldenPreferences,
                         testing::Combine(testing::Values("sigmoid", "hinge",
                                                          "ipo", "robust"),
                                          testing::ValuesIn(kWays)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  std::get<1>(info.param).name;
                         });

TEST(GoldenPreferencesData, IsAllCompared) {
  EXPECT_EQ(GoldenValues()["cases"].size(), 4u);
}

}  // namespace
}  // namespace mpsd::train
