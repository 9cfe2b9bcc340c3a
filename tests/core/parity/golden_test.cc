// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cmath>
#include <fstream>
#include <set>
#include <tuple>

#include "core/ckpt/safetensors.h"
#include "core/optim/schedule.h"
#include "core/spec/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/parity.h"

// The golden data of tests/golden, made by Transformers and PEFT, against what
// our rooms compute. Tolerances are the issue's: relative L2 per tensor.
// Real models have logits in the twenties over embeddings with a large common
// mean: the gradient is what is left when that mean cancels, so each row of
// softmax must sum to one far beyond the rounding of a log-sum-exp of twenty.
// SmolLM2's LoRA gradients were 2e-4 off for it.

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

Tuned LoadBy(const Way& way, const fs::path& model, const fs::path& adapter,
             at::ScalarType dtype = at::kFloat) {
  Subject subject;
  subject.dtype = dtype;
  subject.model = model;
  subject.adapter = adapter;
  if (way.fast) subject.fast = backend::TraitsOf(*way.fast);
  subject.recompute = way.recompute;
  return Load(subject).value();
}

// `about` lies in `folder` and names model, adapter and tensors next to it.
Golden Open(const fs::path& folder, const std::string& about,
            const Way& way = kAutograd) {
  Golden golden;
  golden.about = ReadJson(folder / about);
  auto path = [&](const char* name) {
    return folder / golden.about[name].get<std::string>();
  };
  golden.tensors = ReadTensors(path("golden")).value();
  golden.tuned = LoadBy(way, path("model"), path("adapter"));
  return golden;
}

// Logits where there is a token; those of padding have no meaning.
at::Tensor RealLogits(const Tensors& tensors, const Tensors& golden) {
  const at::Tensor& logits = tensors.at("logits");
  auto mask = golden.find("attention_mask");
  if (mask == golden.end()) return logits;
  return logits.index({mask->second.to(at::kBool)});
}

void ExpectSameNumbers(const Tensors& ours, const Tensors& golden) {
  size_t gradients = 0;
  for (const auto& [name, expected] : golden) {
    if (name != "loss" && name.rfind("grad.", 0) != 0) continue;
    gradients += name != "loss";
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_LE(RelativeError(ours.at(name), expected), kTensorTolerance) << name;
  }
  EXPECT_GT(gradients, 0u);
  EXPECT_EQ(ours.size(), gradients + 2) << "a gradient PEFT does not have";
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

Tensors Below(const Tensors& all, const std::string& prefix) {
  Tensors some;
  for (const auto& [name, tensor] : all) {
    if (name.rfind(prefix, 0) == 0) some[name.substr(prefix.size())] = tensor;
  }
  return some;
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
  auto spec = ParseTraining(golden_.about["training"].dump()).value();
  auto ours = Train(golden_.tuned, golden_.tensors, spec).value();
  ExpectSameTraining(ours, golden_.tensors);
}

// The adapter's own config, read back, says what the case asked for.
TEST_P(GoldenCase, PeftConfigGivesTheSameTargets) {
  nlohmann::json job = {{"model", "m"},
                        {"dataset", {{"train", {"t.jsonl"}}}},
                        {"lora", golden_.about["lora"]}};
  auto spec = spec::ParseTrainSpec(job.dump(), "job.json").value();
  auto targets = *spec::MatchTargets(spec.lora, golden_.tuned.model->config());
  EXPECT_EQ(targets, golden_.tuned.adapter->targets());
}

INSTANTIATE_TEST_SUITE_P(
    Families, GoldenCase,
    testing::Combine(testing::Values("gemma2", "gemma3", "granite", "llama3",
                                     "llama_options", "mistral",
                                     "mistral_window", "olmo2", "olmo3", "phi3",
                                     "qwen2", "qwen2_head", "qwen2_window",
                                     "qwen3", "smollm", "smollm3"),
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
  EXPECT_EQ(folders, 18);
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
  const auto plain = *ReadTensors(GoldenDir() / "smollm/golden.safetensors");
  const Tensors ours = ForwardBackward(golden.tuned, golden.tensors);
  EXPECT_LE(RelativeError(RealLogits(ours, plain), RealLogits(plain, plain)),
            kTensorTolerance);
}

class GoldenPacking : public testing::TestWithParam<Case> {};

TEST_P(GoldenPacking, OneRowEqualsItsSequencesOneByOne) {
  const auto& [name, way] = GetParam();
  const fs::path folder = GoldenDir() / name;
  const Tensors golden =
      Below(ReadTensors(GoldenDir() / "packing.safetensors").value(),
            std::string(name) + ".");
  Tuned tuned = LoadBy(way, folder / "model", folder / "adapter");
  const Tensors ours = ForwardBackward(tuned, golden);
  EXPECT_LE(RelativeError(ours.at("logits"), golden.at("logits")),
            kTensorTolerance);
  ExpectSameNumbers(ours, golden);
}

INSTANTIATE_TEST_SUITE_P(
    Families, GoldenPacking,
    testing::Combine(testing::Values("smollm", "mistral_window", "smollm3",
                                     "olmo3", "gemma2", "phi3"),
                     testing::ValuesIn(kWays)),
    NameOf);

using attention::AttentionKernel;
using model::RunOptions;

// A key's bias shifts all scores of a query alike: its gradient is the rounding
// of zero.
bool IsKeyBias(const std::string& name) {
  return name.ends_with(".key.bias") || name.ends_with(".k_lin.bias");
}

void ExpectSameClassNumbers(const Tensors& ours, const Tensors& golden) {
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

constexpr RunOptions kClassesWays[] = {
    {AttentionKernel::kFused},
    {AttentionKernel::kTiled},
    {AttentionKernel::kFused, spec::Recompute::kFull}};

class GoldenClasses : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = GoldenDir() / GetParam();
    about_ = ReadJson(folder_ / "classes.json");
    golden_ = ReadTensors(folder_ / "classes.safetensors").value();
    ASSERT_FALSE(golden_.empty());
  }
  // `adapter` "": trained whole.
  Tuned Open(const std::string& adapter) {
    Subject subject;
    subject.model = folder_ / "model";
    if (!adapter.empty()) subject.adapter = folder_ / adapter;
    subject.head = ParseHead(about_["head"].dump()).value();
    return Load(subject).value();
  }

  void CheckNumbers(const std::string& adapter, const std::string& run,
                    std::optional<uint64_t> seed = std::nullopt) {
    Tuned tuned = Open(adapter);
    ASSERT_NE(tuned.trainable, nullptr);
    for (const RunOptions& way : kClassesWays) {
      tuned.model->set_options(way);
      ExpectSameClassNumbers(ForwardBackward(tuned, golden_, seed),
                             Below(golden_, run));
    }
  }
  void CheckTraining(const std::string& adapter, const std::string& run) {
    Tuned tuned = Open(adapter);
    ASSERT_NE(tuned.trainable, nullptr);
    auto training = ParseTraining(about_["training"][run].dump()).value();
    auto ours = Train(tuned, golden_, training).value();
    ExpectSameTraining(ours, Below(golden_, run + "."));
  }

  fs::path folder_;
  nlohmann::json about_;
  Tensors golden_;
};

TEST_P(GoldenClasses, WholeModelsNumbersAreThoseOfTransformers) {
  CheckNumbers("", "full.");
}

TEST_P(GoldenClasses, AdaptersNumbersAreThoseOfPeft) {
  CheckNumbers("adapter", "lora.");
}

TEST_P(GoldenClasses, DropoutMasksAreThoseOfTransformersForTheSameSeed) {
  const auto seed = about_["seed"].get<uint64_t>();
  CheckNumbers("", "full_dropout.", seed);
  CheckNumbers("adapter_dropout", "lora_dropout.", seed);
}

TEST_P(GoldenClasses, TwentyStepsOfTheWholeModelAreThoseOfTrainer) {
  CheckTraining("", "full");
}

TEST_P(GoldenClasses, TwentyStepsOfTheAdapterAreThoseOfTrainer) {
  CheckTraining("adapter", "lora");
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenClasses,
                         testing::Values("bert", "bert_weighted", "roberta",
                                         "electra", "distilbert",
                                         "llama_classes", "vit", "vit_grey"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class GoldenFull : public testing::TestWithParam<Case> {
 protected:
  Tuned Open(at::ScalarType dtype = at::kFloat) {
    return LoadBy(std::get<1>(GetParam()), folder_ / "model", "", dtype);
  }
  const fs::path folder_ = GoldenDir() / std::get<0>(GetParam());
  const Tensors golden_ = ReadTensors(folder_ / "full.safetensors").value();
};

TEST_P(GoldenFull, EveryGradientIsThatOfTransformers) {
  Tuned tuned = Open();
  ASSERT_NE(tuned.trainable, nullptr);
  for (const RunOptions& way : kClassesWays) {
    tuned.model->set_options(way);
    Tensors ours = ForwardBackward(tuned, golden_);
    Tensors golden = golden_;
    const at::Tensor real = golden_.at("attention_mask").to(at::kBool);
    for (Tensors* t : {&ours, &golden}) {
      t->at("logits") = t->at("logits").index({real});
    }
    ExpectSameClassNumbers(ours, golden);
    if (tuned.fast) break;  // these ways are autograd's
  }
}

TEST_P(GoldenFull, TwentyStepsAreThoseOfTrainer) {
  Tuned tuned = Open();
  ASSERT_NE(tuned.trainable, nullptr);
  const auto about = ReadJson(folder_ / "full.json");
  auto training = ParseTraining(about["training"].dump()).value();
  auto ours = Train(tuned, golden_, training).value();
  ExpectSameTraining(ours, golden_);
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
  auto training =
      *ParseTraining(ReadJson(folder_ / "full.json")["training"].dump());
  auto trained = Train(tuned, golden_, training).value();
  const at::Tensor losses = trained.at("train.losses");
  EXPECT_LE(RelativeError(losses, golden_.at("train.losses")), 0.03);
}

INSTANTIATE_TEST_SUITE_P(
    Families, GoldenFull,
    testing::Combine(testing::Values("gemma2", "gemma3", "granite", "llama2",
                                     "llama3", "olmo3", "phi3"),
                     testing::ValuesIn(kWays)),
    NameOf);

// Every folder of golden data is a case above.
TEST(GoldenClassesData, IsAllCompared) {
  int classes = 0, full = 0;
  for (const auto& entry : fs::directory_iterator(GoldenDir())) {
    classes += fs::exists(entry.path() / "classes.json");
    full += fs::exists(entry.path() / "full.json");
  }
  EXPECT_EQ(classes, 8);
  EXPECT_EQ(full, 7);
}

using nlohmann::json;

TEST(GoldenSchedules, EveryStepHasTheRateOfTransformers) {
  const json table = ReadJson(GoldenDir() / "schedules.json");
  ASSERT_EQ(table.size(), 28u);
  for (const json& entry : table) {
    spec::TrainingSpec spec;
    spec.lr_scheduler_type = entry["lr_scheduler_type"];
    spec.learning_rate = entry["learning_rate"];
    spec.warmup_steps = entry["warmup_steps"];
    spec.warmup_ratio = entry["warmup_ratio"];
    auto schedule = optim::Schedule::Create(spec, entry["steps"]).value();
    int64_t step = 0;
    for (double rate : entry["learning_rates"]) {
      EXPECT_NEAR(schedule.LearningRate(step), rate, 1e-12 + 1e-12 * rate)
          << spec.lr_scheduler_type << " warmup " << spec.warmup_steps << "/"
          << spec.warmup_ratio << " step " << step;
      ++step;
    }
  }
}

TEST(GoldenSchedules, AResumedRunOfAnotherLengthHasTheRatesOfTransformers) {
  const json table = ReadJson(GoldenDir() / "resumed_rates.json");
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

Fresh Attach(const std::string& name, const json& lora) {
  const json job = {
      {"model", "m"}, {"dataset", {{"train", {"t.jsonl"}}}}, {"lora", lora}};
  const auto spec = spec::ParseTrainSpec(job.dump(), "job.json").value();
  const fs::path folder = GoldenDir() / name / "model";
  const auto config = spec::ReadModelConfig(folder.string()).value();
  const auto weights = tensorfile::Weights::Open(folder).value();
  Fresh fresh;
  fresh.model =
      model::Decoder::Load(*weights, config, at::kCPU, at::kFloat).value();
  fresh.adapter =
      lora::Adapter::Attach(*fresh.model, spec.lora, at::kCPU).value();
  return fresh;
}

TEST(GoldenDecayGroups, AreThoseOfTrainer) {
  const json table = ReadJson(GoldenDir() / "decay_groups.json");
  for (const auto& [name, entry] : table.items()) {
    const Fresh fresh = Attach(name, entry["lora"]);
    std::set<std::string> decay, no_decay;
    for (const optim::Parameter& p : fresh.adapter->parameters().parameters()) {
      (optim::ParameterSet::Decays(p.name) ? decay : no_decay).insert(p.name);
    }
    EXPECT_EQ(decay, entry["decay"].get<std::set<std::string>>()) << name;
    EXPECT_EQ(no_decay, entry["no_decay"].get<std::set<std::string>>()) << name;
  }
}

TEST(GoldenInitialisation, IsPeftsInShapeBoundsAndSpread) {
  const json lora = {
      {"r", 16}, {"lora_alpha", 16}, {"target_modules", "all-linear"}};
  const json table = ReadJson(GoldenDir() / "init.json");
  for (const auto& [name, entries] : table.items()) {
    const Fresh fresh = Attach(name, lora);
    EXPECT_EQ(fresh.adapter->parameters().parameters().size(), entries.size());
    for (const auto& [parameter, entry] : entries.items()) {
      const auto* p = fresh.adapter->parameters().Find(parameter);
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

constexpr int64_t kTokens = 64, kHidden = 64, kVocabulary = 512;

at::Tensor GradientOfTransformers(const at::Tensor& hidden,
                                  const at::Tensor& weight,
                                  const at::Tensor& targets) {
  const at::Tensor leaf = hidden.detach().clone().requires_grad_(true);
  at::cross_entropy_loss(at::linear(leaf, weight), targets, {},
                         at::Reduction::Sum)
      .backward();
  return leaf.grad();
}

TEST(HeadLossPrecision, IsThatOfCrossEntropyWhereACommonMeanCancels) {
  at::manual_seed(5);
  const at::Tensor mean = at::ones({kHidden}) * 3;
  model::Linear head;
  head.weight = mean + 0.1 * at::randn({kVocabulary, kHidden});
  const at::Tensor hidden =
      at::full({kTokens, kHidden}, 0.12) + 0.3 * at::randn({kTokens, kHidden});
  const at::Tensor targets = at::randint(kVocabulary, {kTokens}, at::kLong);

  const at::Tensor leaf = hidden.clone().requires_grad_(true);
  model::SumCrossEntropy(leaf.view({1, kTokens, kHidden}), head,
                         {at::arange(kTokens), targets, kTokens})
      .backward();
  const at::Tensor exact = GradientOfTransformers(
      hidden.to(at::kDouble), head.weight.to(at::kDouble), targets);
  const double theirs = RelativeError(
      GradientOfTransformers(hidden, head.weight, targets), exact);
  EXPECT_LE(RelativeError(leaf.grad(), exact), 2 * theirs);
  EXPECT_LT(theirs, 1e-5);
}

}  // namespace
}  // namespace mpsd::parity
