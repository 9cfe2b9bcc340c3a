// SPDX-License-Identifier: Apache-2.0
// The golden data of tests/golden, made by Transformers and PEFT, against what
// our rooms compute. Tolerances are the issue's: relative L2 per tensor.
#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/parity.h"

namespace mpsd::parity {
namespace {

namespace fs = std::filesystem;

constexpr double kTensorTolerance = 1e-5;
constexpr double kLossTolerance = 1e-4;  // of each of 20 training losses
constexpr double kFinalTolerance = 1e-4;

fs::path GoldenDir() {
  return fs::path(MPSD_TEST_SOURCE_DIR) / "tests" / "golden";
}

nlohmann::json ReadJson(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::json::parse(file, nullptr, false);
}

struct Golden {
  nlohmann::json about;
  Tensors tensors;
  Tuned tuned;
};

// How gradients come about.
struct Way {
  const char* name;
  std::optional<backend::Choice> fast;  // by whose traits; absent: autograd
  spec::Recompute recompute = spec::Recompute::kNone;
};

constexpr Way kAutograd{"autograd", std::nullopt};
constexpr Way kWays[] = {
    kAutograd,
    {"fast", backend::Choice::kCpu},
    {"fast_as_on_mps", backend::Choice::kMps},
    {"fast_selective", backend::Choice::kCpu, spec::Recompute::kSelective},
    {"fast_inputs", backend::Choice::kMps, spec::Recompute::kFull},
};

// `about` lies in `folder` and names model, adapter and tensors beside it.
Golden Open(const fs::path& folder, const std::string& about,
            const Way& way = kAutograd) {
  Golden golden;
  golden.about = ReadJson(folder / about);
  auto path = [&](const char* name) {
    return folder / golden.about[name].get<std::string>();
  };
  auto tensors = ReadTensors(path("golden"));
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  Subject subject;
  subject.model = path("model");
  subject.adapter = path("adapter");
  if (way.fast) subject.fast = backend::TraitsOf(*way.fast);
  subject.recompute = way.recompute;
  auto tuned = Load(subject);
  EXPECT_TRUE(tuned.ok()) << tuned.status();
  if (tensors.ok()) golden.tensors = *std::move(tensors);
  if (tuned.ok()) golden.tuned = *std::move(tuned);
  return golden;
}

// Logits where there is a token; those of padding are nobody's.
at::Tensor RealLogits(const Tensors& tensors, const Tensors& golden) {
  const at::Tensor& logits = tensors.at("logits");
  auto mask = golden.find("attention_mask");
  if (mask == golden.end()) return logits;
  return logits.index({mask->second.to(at::kBool)});
}

void ExpectSameNumbers(const Tensors& ours, const Tensors& golden,
                       const std::string& prefix = "") {
  size_t gradients = 0;
  for (const auto& [full_name, expected] : golden) {
    if (full_name.rfind(prefix, 0) != 0) continue;
    const std::string name = full_name.substr(prefix.size());
    if (name != "loss" && name.rfind("grad.", 0) != 0) continue;
    gradients += name != "loss";
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_LE(RelativeError(ours.at(name), expected), kTensorTolerance) << name;
  }
  EXPECT_GT(gradients, 0u);
  EXPECT_EQ(ours.size(), gradients + 2) << "a gradient PEFT does not have";
}

using Case = std::tuple<const char*, Way>;

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return std::string(std::get<0>(info.param)) + "_" +
         std::get<1>(info.param).name;
}

class GoldenCase : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    golden_ = Open(GoldenDir() / std::get<0>(GetParam()), "golden.json",
                   std::get<1>(GetParam()));
    ASSERT_NE(golden_.tuned.adapter, nullptr);
  }
  Golden golden_;
};

TEST_P(GoldenCase, LogitsLossAndGradientsAreThoseOfPeft) {
  const Tensors ours = ForwardBackward(golden_.tuned, golden_.tensors);
  EXPECT_LE(RelativeError(RealLogits(ours, golden_.tensors),
                          RealLogits(golden_.tensors, golden_.tensors)),
            kTensorTolerance);
  ExpectSameNumbers(ours, golden_.tensors);
}

TEST_P(GoldenCase, TwentyStepsAreThoseOfTrainer) {
  auto spec = ParseTraining(golden_.about["training"].dump());
  ASSERT_TRUE(spec.ok()) << spec.status();
  auto ours = Train(golden_.tuned, golden_.tensors, *spec);
  ASSERT_TRUE(ours.ok()) << ours.status();
  for (const char* series :
       {"train.losses", "train.grad_norms", "train.learning_rates"}) {
    const at::Tensor expected = golden_.tensors.at(series);
    const at::Tensor actual = ours->at(series);
    ASSERT_EQ(actual.numel(), 20);
    ASSERT_EQ(expected.numel(), 20);
    for (int64_t step = 0; step < 20; ++step) {
      const double want = expected[step].item<double>();
      EXPECT_NEAR(actual[step].item<double>(), want,
                  kLossTolerance * std::abs(want))
          << series << " of step " << step;
    }
  }
  for (const auto& [name, expected] : golden_.tensors) {
    if (name.rfind("final.", 0) != 0) continue;
    ASSERT_TRUE(ours->contains(name)) << name;
    EXPECT_LE(RelativeError(ours->at(name), expected), kFinalTolerance) << name;
  }
}

// The adapter's own config, read back, says what the case asked for.
TEST_P(GoldenCase, PeftConfigGivesTheSameTargets) {
  nlohmann::json job = {{"model", "m"},
                        {"dataset", {{"train", {"t.jsonl"}}}},
                        {"lora", golden_.about["lora"]}};
  auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
  ASSERT_TRUE(spec.ok()) << spec.status();
  auto targets = spec::MatchTargets(spec->lora, golden_.tuned.model->config());
  ASSERT_TRUE(targets.ok()) << targets.status();
  EXPECT_EQ(*targets, golden_.tuned.adapter->targets());
}

INSTANTIATE_TEST_SUITE_P(
    Families, GoldenCase,
    testing::Combine(testing::Values("llama3", "llama_options", "mistral",
                                     "mistral_window", "qwen2", "qwen2_head",
                                     "qwen2_window", "qwen3", "smollm"),
                     testing::ValuesIn(kWays)),
    NameOf);
// With lm_head in modules_to_save, which autograd alone covers.
INSTANTIATE_TEST_SUITE_P(TrainedHead, GoldenCase,
                         testing::Combine(testing::Values("llama2",
                                                          "llama2_sharded"),
                                          testing::Values(kAutograd)),
                         NameOf);

// Every folder of golden data is a case above.
TEST(GoldenData, IsAllCompared) {
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(GoldenDir())) {
    folders += fs::exists(entry.path() / "golden.json");
  }
  EXPECT_EQ(folders, 11);
}

class GoldenDropout : public testing::TestWithParam<Way> {};

TEST_P(GoldenDropout, MasksAreThoseOfPeftForTheSameSeed) {
  Golden golden = Open(GoldenDir() / "smollm", "dropout.json", GetParam());
  ASSERT_NE(golden.tuned.adapter, nullptr);
  ASSERT_EQ(golden.tuned.lora.lora_dropout, 0.1);
  const Tensors ours = ForwardBackward(golden.tuned, golden.tensors,
                                       golden.about["seed"].get<uint64_t>());
  EXPECT_LE(RelativeError(RealLogits(ours, golden.tensors),
                          RealLogits(golden.tensors, golden.tensors)),
            kTensorTolerance);
  ExpectSameNumbers(ours, golden.tensors);
}

INSTANTIATE_TEST_SUITE_P(Ways, GoldenDropout, testing::ValuesIn(kWays),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(GoldenEvaluation, HasNoDropout) {
  Golden golden = Open(GoldenDir() / "smollm", "dropout.json");
  ASSERT_NE(golden.tuned.adapter, nullptr);
  const auto plain = ReadTensors(GoldenDir() / "smollm/golden.safetensors");
  ASSERT_TRUE(plain.ok()) << plain.status();
  const Tensors ours = ForwardBackward(golden.tuned, golden.tensors);
  EXPECT_LE(RelativeError(RealLogits(ours, *plain), RealLogits(*plain, *plain)),
            kTensorTolerance);
}

class GoldenPacking : public testing::TestWithParam<Case> {};

TEST_P(GoldenPacking, OneRowEqualsItsSequencesOneByOne) {
  const auto& [name, way] = GetParam();
  const fs::path folder = GoldenDir() / name;
  const std::string prefix = std::string(name) + ".";
  auto tensors = ReadTensors(GoldenDir() / "packing.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  Subject subject;
  subject.model = folder / "model";
  subject.adapter = folder / "adapter";
  if (way.fast) subject.fast = backend::TraitsOf(*way.fast);
  subject.recompute = way.recompute;
  auto tuned = Load(subject);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  Tensors inputs;
  for (const auto& [key, tensor] : *tensors) {
    if (key.rfind(prefix, 0) == 0) inputs[key.substr(prefix.size())] = tensor;
  }
  const Tensors ours = ForwardBackward(*tuned, inputs);
  EXPECT_LE(RelativeError(ours.at("logits"), inputs.at("logits")),
            kTensorTolerance);
  ExpectSameNumbers(ours, *tensors, prefix);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenPacking,
                         testing::Combine(testing::Values("smollm",
                                                          "mistral_window"),
                                          testing::ValuesIn(kWays)),
                         NameOf);

}  // namespace
}  // namespace mpsd::parity
