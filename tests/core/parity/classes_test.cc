// SPDX-License-Identifier: Apache-2.0
// Classification of texts and images, and models trained whole, against
// Transformers and PEFT: the golden data that tests/golden/classes.py and
// vit.py make, and full.safetensors of two language models.
#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/parity.h"

namespace mpsd::parity {
namespace {

namespace fs = std::filesystem;
using attention::AttentionKernel;
using model::RunOptions;

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

Tensors Golden(const fs::path& path) {
  auto tensors = ReadTensors(path);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return tensors.ok() ? *std::move(tensors) : Tensors();
}

Tensors Below(const Tensors& all, const std::string& prefix) {
  Tensors some;
  for (const auto& [name, tensor] : all) {
    if (name.rfind(prefix, 0) == 0) some[name.substr(prefix.size())] = tensor;
  }
  return some;
}

// A key's bias shifts all scores of a query alike: its gradient is the rounding
// of zero.
bool IsKeyBias(const std::string& name) {
  return name.ends_with(".key.bias") || name.ends_with(".k_lin.bias");
}

void ExpectSameNumbers(const Tensors& ours, const Tensors& golden) {
  size_t gradients = 0;
  for (const auto& [name, expected] : golden) {
    const bool gradient = name.rfind("grad.", 0) == 0;
    if (!gradient && name != "loss" && name != "logits") continue;
    gradients += gradient;
    ASSERT_TRUE(ours.contains(name)) << name;
    if (gradient && IsKeyBias(name)) {
      EXPECT_LE(ours.at(name).norm().item<double>(), 1e-6) << name;
    } else {
      EXPECT_LE(RelativeError(ours.at(name), expected), kTensorTolerance)
          << name;
    }
  }
  EXPECT_GT(gradients, 0u);
  EXPECT_EQ(ours.size(), gradients + 2) << "a gradient they do not have";
}

void ExpectSameTraining(const Tensors& ours, const Tensors& golden) {
  for (const char* series :
       {"train.losses", "train.grad_norms", "train.learning_rates"}) {
    const at::Tensor expected = golden.at(series), actual = ours.at(series);
    ASSERT_EQ(actual.numel(), 20);
    ASSERT_EQ(expected.numel(), 20);
    for (int64_t step = 0; step < 20; ++step) {
      const double want = expected[step].item<double>();
      EXPECT_NEAR(actual[step].item<double>(), want,
                  kLossTolerance * std::abs(want))
          << series << " of step " << step;
    }
  }
  for (const auto& [name, expected] : golden) {
    if (name.rfind("final.", 0) != 0) continue;
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_LE(RelativeError(ours.at(name), expected), kFinalTolerance) << name;
  }
}

class GoldenClasses : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = GoldenDir() / GetParam();
    about_ = ReadJson(folder_ / "classes.json");
    golden_ = Golden(folder_ / "classes.safetensors");
    ASSERT_FALSE(golden_.empty());
  }
  // `adapter` "": trained whole.
  Tuned Open(const std::string& adapter) {
    Subject subject;
    subject.model = folder_ / "model";
    if (!adapter.empty()) subject.adapter = folder_ / adapter;
    auto head = ParseHead(about_["head"].dump());
    EXPECT_TRUE(head.ok()) << head.status();
    if (head.ok()) subject.head = *head;
    auto tuned = Load(subject);
    EXPECT_TRUE(tuned.ok()) << tuned.status();
    return tuned.ok() ? *std::move(tuned) : Tuned();
  }
  uint64_t seed() const { return about_["seed"].get<uint64_t>(); }

  void CheckTraining(const std::string& adapter, const std::string& run) {
    Tuned tuned = Open(adapter);
    ASSERT_NE(tuned.trainable, nullptr);
    auto training = ParseTraining(about_["training"][run].dump());
    ASSERT_TRUE(training.ok()) << training.status();
    auto ours = Train(tuned, golden_, *training);
    ASSERT_TRUE(ours.ok()) << ours.status();
    ExpectSameTraining(*ours, Below(golden_, run + "."));
  }

  fs::path folder_;
  nlohmann::json about_;
  Tensors golden_;
};

constexpr RunOptions kWays[] = {
    {AttentionKernel::kFused},
    {AttentionKernel::kTiled},
    {AttentionKernel::kFused, spec::Recompute::kFull}};

TEST_P(GoldenClasses, WholeModelsNumbersAreThoseOfTransformers) {
  Tuned tuned = Open("");
  ASSERT_NE(tuned.trainable, nullptr);
  for (const RunOptions& way : kWays) {
    tuned.model->set_options(way);
    ExpectSameNumbers(ForwardBackward(tuned, golden_), Below(golden_, "full."));
  }
}

TEST_P(GoldenClasses, AdaptersNumbersAreThoseOfPeft) {
  Tuned tuned = Open("adapter");
  ASSERT_NE(tuned.trainable, nullptr);
  for (const RunOptions& way : kWays) {
    tuned.model->set_options(way);
    ExpectSameNumbers(ForwardBackward(tuned, golden_), Below(golden_, "lora."));
  }
}

TEST_P(GoldenClasses, DropoutMasksAreThoseOfTransformersForTheSameSeed) {
  for (const auto& [adapter, run] :
       {std::pair{"", "full_dropout."},
        std::pair{"adapter_dropout", "lora_dropout."}}) {
    Tuned tuned = Open(adapter);
    ASSERT_NE(tuned.trainable, nullptr);
    for (const RunOptions& way : kWays) {
      tuned.model->set_options(way);
      ExpectSameNumbers(ForwardBackward(tuned, golden_, seed()),
                        Below(golden_, run));
    }
  }
}

TEST_P(GoldenClasses, TwentyStepsOfTheWholeModelAreThoseOfTrainer) {
  CheckTraining("", "full");
}

TEST_P(GoldenClasses, TwentyStepsOfTheAdapterAreThoseOfTrainer) {
  CheckTraining("adapter", "lora");
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenClasses,
                         testing::Values("bert", "bert_weighted", "roberta",
                                         "distilbert", "llama_classes", "vit",
                                         "vit_grey"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class GoldenFull : public testing::TestWithParam<const char*> {
 protected:
  Tuned Open(at::ScalarType dtype = at::kFloat) {
    Subject subject;
    subject.model = GoldenDir() / GetParam() / "model";
    subject.dtype = dtype;
    auto tuned = Load(subject);
    EXPECT_TRUE(tuned.ok()) << tuned.status();
    return tuned.ok() ? *std::move(tuned) : Tuned();
  }
  const Tensors golden_ = Golden(GoldenDir() / GetParam() / "full.safetensors");
};

TEST_P(GoldenFull, EveryGradientIsThatOfTransformers) {
  Tuned tuned = Open();
  ASSERT_NE(tuned.trainable, nullptr);
  for (const RunOptions& way : kWays) {
    tuned.model->set_options(way);
    Tensors ours = ForwardBackward(tuned, golden_);
    Tensors golden = golden_;
    const at::Tensor real = golden_.at("attention_mask").to(at::kBool);
    for (Tensors* t : {&ours, &golden}) {
      t->at("logits") = t->at("logits").index({real});
    }
    ExpectSameNumbers(ours, golden);
  }
}

TEST_P(GoldenFull, TwentyStepsAreThoseOfTrainer) {
  Tuned tuned = Open();
  ASSERT_NE(tuned.trainable, nullptr);
  const auto about = ReadJson(GoldenDir() / GetParam() / "full.json");
  auto training = ParseTraining(about["training"].dump());
  ASSERT_TRUE(training.ok()) << training.status();
  auto ours = Train(tuned, golden_, *training);
  ASSERT_TRUE(ours.ok()) << ours.status();
  ExpectSameTraining(*ours, golden_);
}

// Mixed precision: fp32 masters, bf16 arithmetic, fp32 gradients near fp32's.
TEST_P(GoldenFull, Bf16WithMastersStaysNear) {
  Tuned tuned = Open(at::kBFloat16);
  ASSERT_NE(tuned.trainable, nullptr);
  EXPECT_EQ(tuned.model->dtype(), at::kBFloat16);
  const Tensors ours = ForwardBackward(tuned, golden_);
  for (const auto& [name, expected] : golden_) {
    if (name.rfind("grad.", 0) != 0) continue;
    EXPECT_EQ(ours.at(name).scalar_type(), at::kFloat);
    EXPECT_LE(RelativeError(ours.at(name), expected), 0.1) << name;
  }
  auto training = ParseTraining(
      ReadJson(GoldenDir() / GetParam() / "full.json")["training"].dump());
  ASSERT_TRUE(training.ok()) << training.status();
  auto trained = Train(tuned, golden_, *training);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const at::Tensor losses = trained->at("train.losses");
  EXPECT_LE(RelativeError(losses, golden_.at("train.losses")), 0.03);
}

INSTANTIATE_TEST_SUITE_P(UntiedAndTied, GoldenFull,
                         testing::Values("llama2", "llama3"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

// Every folder of golden data is a case above.
TEST(GoldenClassesData, IsAllCompared) {
  int classes = 0, full = 0;
  for (const auto& entry : fs::directory_iterator(GoldenDir())) {
    classes += fs::exists(entry.path() / "classes.json");
    full += fs::exists(entry.path() / "full.json");
  }
  EXPECT_EQ(classes, 7);
  EXPECT_EQ(full, 2);
}

}  // namespace
}  // namespace mpsd::parity
