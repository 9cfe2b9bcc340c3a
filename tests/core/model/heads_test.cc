// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/ckpt/safetensors.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/encoder.h"
#include "core/model/losses.h"
#include "core/model/network.h"
#include "core/model/weight_reader.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"
#include "tests/core/model/golden_models.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

// Files whose tensors are not those that config.json speaks of, and what
// Transformers makes of them (tests/golden/heads.py).

namespace mpsd::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing_support::Fails;
using testing_support::Golden;

constexpr double kTolerance = 1e-5;

json Cases() {
  return json::parse(*base::ReadFile(fs::path(MPSD_TEST_SOURCE_DIR) /
                                     "tests/golden/heads.json"));
}

std::map<std::string, at::Tensor> ReadTensors(const fs::path& path) {
  const auto file = *tensorfile::SafetensorsFile::Open(path);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : file->entries()) {
    tensors[name] = *file->Load(name);
  }
  return tensors;
}

// The model folder that heads.py wrote for the case.
fs::path Write(const std::string& name, const json& c) {
  const fs::path from = Golden(c["of"].get<std::string>(), "model");
  const fs::path folder = testing_support::FreshFolder("heads_" + name);
  json config = json::parse(*base::ReadFile(from / "config.json"));
  if (c.contains("config")) config.update(c["config"]);
  std::ofstream(folder / "config.json") << config.dump();
  auto tensors = ReadTensors(from / "model.safetensors");
  const json copies = c.value("copy", json::object());
  for (const auto& [now, old] : copies.items()) {
    tensors[now] = tensors.at(old.get<std::string>());
  }
  const json zeros = c.value("zeros", json::object());
  for (const auto& [now, shape] : zeros.items()) {
    tensors[now] = at::zeros(shape.get<std::vector<int64_t>>());
  }
  const json gone = c.value("drop", json::array());
  for (const json& drop : gone) tensors.erase(drop.get<std::string>());
  const tensorfile::NamedTensors named(tensors.begin(), tensors.end());
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", named).ok());
  return folder;
}

absl::StatusOr<std::unique_ptr<Network>> Load(const fs::path& folder) {
  auto config = spec::ReadModelConfig(folder.string()).value();
  const auto weights = tensorfile::Weights::Open(folder).value();
  const WeightSource source{weights.get()};
  if (config.family == spec::Family::kEncoder) {
    config.num_labels = config.head.num_labels.value_or(2);
    return Classifier::Load(source, config);
  }
  return Decoder::Load(source, config);
}

// The mean over the labels, as Transformers': each token predicts the next.
at::Tensor Loss(const Decoder& decoder, const std::string& of) {
  const auto golden = ReadTensors(Golden(of, "golden.safetensors"));
  const at::Tensor ids = golden.at("input_ids");
  DecoderInputs inputs;
  inputs.input_ids = ids;
  inputs.position_ids =
      at::arange(ids.size(1)).expand(ids.sizes()).contiguous();
  const at::Tensor logits =
      decoder.Logits(inputs).narrow(1, 0, ids.size(1) - 1);
  const at::Tensor labels =
      golden.at("labels").narrow(1, 1, ids.size(1) - 1).reshape({-1});
  return at::cross_entropy_loss(logits.reshape({labels.numel(), -1}), labels);
}

class HeadsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    case_ = Cases()[GetParam()];
    network_ = Load(Write(GetParam(), case_)).value();
  }
  json case_;
  std::unique_ptr<Network> network_;
};

TEST_P(HeadsTest, WhatNothingUsedAndWhatIsMissingAreTransformers) {
  const LoadReport& report = network_->load_report();
  EXPECT_EQ(json(report.unused), case_["unexpected"]);
  EXPECT_THAT(report.missing,
              testing::UnorderedElementsAreArray(
                  case_["missing"].get<std::vector<std::string>>()));
  EXPECT_EQ(report.untied, std::string(GetParam()) == "differ");
}

TEST_P(HeadsTest, LossAndGradientsAreTransformers) {
  auto* decoder = dynamic_cast<Decoder*>(network_.get());
  if (decoder == nullptr) return;  // its numbers are in core/parity
  EXPECT_EQ(decoder->config().tie_word_embeddings, case_["tied"].get<bool>());
  std::map<std::string, at::Tensor> weights;
  for (const NamedWeight& weight : decoder->NamedWeights()) {
    const bool tied = weight.name == "lm_head.weight" &&
                      decoder->config().tie_word_embeddings;
    if (!tied) weights[weight.name] = weight.tensor->requires_grad_(true);
  }
  const at::Tensor loss = Loss(*decoder, case_["of"].get<std::string>());
  const double want = case_["loss"].get<double>();
  EXPECT_NEAR(loss.item<double>(), want, kTolerance * want);
  loss.backward();
  EXPECT_EQ(weights.size(), case_["gradient_norms"].size());
  const json norms = case_["gradient_norms"];
  for (const auto& [name, norm] : norms.items()) {
    ASSERT_TRUE(weights.contains(name)) << name;
    EXPECT_NEAR(weights[name].grad().norm().item<double>(), norm.get<double>(),
                kTolerance * norm.get<double>())
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, HeadsTest,
                         testing::Values("alike", "differ", "head_only",
                                         "embedding_only", "untied", "dynamic",
                                         "more", "texts"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(HeadsCasesTest, AHeadThatIsNotThereAndNotTiedIsNamed) {
  EXPECT_EQ(Cases().size(), 8u) << "every case is tried above";
  json c = Cases()["untied"];
  c["drop"] = json::array({"lm_head.weight"});
  EXPECT_THAT(
      Load(Write("no_head", c)),
      Fails(absl::StatusCode::kNotFound, "\"tie_word_embeddings\": true"));
}

using spec::ProblemType;

const at::Tensor kNone;

TEST(ClassLossTest, MultiLabelWeighsThePositives) {
  const at::Tensor z = at::tensor({1.f, -2.f}).view({1, 2});
  const at::Tensor t = at::tensor({1.f, 0.f}).view({1, 2});
  const auto log_sigmoid = [](double x) { return -std::log1p(std::exp(-x)); };
  EXPECT_NEAR(
      SumClassLoss(ProblemType::kMultiLabel, z, t, kNone).item<double>(),
      -log_sigmoid(1) - log_sigmoid(2), 1e-6);
  EXPECT_NEAR(
      SumClassLoss(ProblemType::kMultiLabel, z, t, at::tensor({4.f, 9.f}))
          .item<double>(),
      -4 * log_sigmoid(1) - log_sigmoid(2), 1e-6);
}

TEST(ClassLossTest, IsFp32OfBf16Logits) {
  const at::Tensor z = at::randn({2, 3}).to(at::kBFloat16);
  const at::Tensor loss = SumClassLoss(ProblemType::kSingleLabel, z,
                                       at::tensor({0, 1}, at::kLong), kNone);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
}

constexpr int64_t kTokens = 10, kHidden = 6, kVocab = 17;

class HeadLossTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(5);
    head_.name = "lm_head";
    head_.weight = at::randn({kVocab, kHidden});
    hidden_ = at::randn({2, kTokens / 2, kHidden}).requires_grad_();
    labels_.rows = at::tensor(
        {int64_t{1}, int64_t{2}, int64_t{6}, int64_t{9}, int64_t{0}});
    labels_.targets = at::tensor(
        {int64_t{3}, int64_t{0}, int64_t{16}, int64_t{3}, base::kIgnoreIndex});
    labels_.count = 4;
  }
  // By torch's own cross entropy over the real targets.
  at::Tensor Expected() {
    const at::Tensor logits =
        at::linear(hidden_.reshape({-1, kHidden})
                       .index_select(0, labels_.rows.narrow(0, 0, 4)),
                   head_.weight);
    return at::cross_entropy_loss(logits, labels_.targets.narrow(0, 0, 4), {},
                                  at::Reduction::Sum);
  }
  at::Tensor GradientOf(const at::Tensor& loss) {
    hidden_.mutable_grad() = at::Tensor();
    (loss * 0.25).backward();
    return hidden_.grad().clone();
  }
  Linear head_;
  at::Tensor hidden_;
  LabelSelection labels_;
};

TEST_F(HeadLossTest, ChunksChangeNeitherLossNorGradient) {
  const at::Tensor expected = Expected();
  const at::Tensor gradient = GradientOf(expected);
  for (int64_t chunk : {1, 2, 3, 5, 100}) {
    const at::Tensor loss = SumCrossEntropy(hidden_, head_, labels_, chunk);
    EXPECT_TRUE(at::allclose(loss, expected)) << chunk;
    EXPECT_TRUE(at::allclose(GradientOf(loss), gradient, 1e-5, 1e-7)) << chunk;
  }
}

TEST_F(HeadLossTest, ATrainableHeadGetsItsGradient) {
  head_.weight.requires_grad_();
  const at::Tensor gradient = GradientOf(Expected());
  const at::Tensor head_gradient = head_.weight.grad().clone();
  head_.weight.mutable_grad() = at::Tensor();
  const at::Tensor loss = SumCrossEntropy(hidden_, head_, labels_, 2);
  EXPECT_TRUE(at::allclose(GradientOf(loss), gradient, 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(head_.weight.grad(), head_gradient, 1e-5, 1e-7));
}

// Trained whole: an fp32 master under bf16 activations.
TEST_F(HeadLossTest, AMasterHeadGetsItsGradientInFp32) {
  head_.weight.requires_grad_();
  head_.compute_in_input_dtype = true;
  GradientOf(Expected());
  const at::Tensor expected = head_.weight.grad().clone();
  head_.weight.mutable_grad() = at::Tensor();
  const at::Tensor narrow = hidden_.to(at::kBFloat16);
  (SumCrossEntropy(narrow, head_, labels_, 2) * 0.25).backward();
  EXPECT_EQ(head_.weight.grad().scalar_type(), at::kFloat);
  EXPECT_LE((head_.weight.grad() - expected).norm().item<double>(),
            2e-2 * expected.norm().item<double>());
}

// modules_to_save: fp32 arithmetic within a bf16 model.
TEST_F(HeadLossTest, AnFp32HeadInABf16ModelComputesInFp32) {
  const at::Tensor narrow = hidden_.detach().to(at::kBFloat16);
  const at::Tensor logits =
      at::linear(narrow.to(at::kFloat).reshape({-1, kHidden}), head_.weight)
          .to(at::kBFloat16)
          .to(at::kFloat)
          .index_select(0, labels_.rows);
  const at::Tensor expected = at::cross_entropy_loss(
      logits, labels_.targets, {}, at::Reduction::Sum, base::kIgnoreIndex);
  EXPECT_TRUE(at::allclose(SumCrossEntropy(narrow, head_, labels_, 3), expected,
                           1e-5, 1e-6));
}

TEST_F(HeadLossTest, PaddedTargetsCountNothing) {
  labels_.targets.fill_(base::kIgnoreIndex);
  const at::Tensor loss = SumCrossEntropy(hidden_, head_, labels_);
  EXPECT_EQ(loss.item<float>(), 0);
  EXPECT_EQ(GradientOf(loss).abs().max().item<float>(), 0);
}

constexpr char kRows[] = "model.embed_tokens.weight";

TiedHead Find(const tensorfile::NamedTensors& tensors,
              at::ScalarType dtype = at::kFloat) {
  const auto folder = testing_support::FreshFolder("tied_head");
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  const auto weights = *tensorfile::Weights::Open(folder);
  return FindTiedHead(*weights, kRows, dtype).value();
}

// As torch.equal of what was loaded: bf16 does not have the last bits of fp32.
TEST(FindTiedHeadTest, ComparesInTheDtypeThatIsLoaded) {
  const at::Tensor a = at::ones({5, 3});
  const at::Tensor b = a + 1e-6;
  EXPECT_EQ(Find({{kRows, a}, {kHeadWeight, b}}), TiedHead::kBoth);
  EXPECT_EQ(Find({{kRows, a}, {kHeadWeight, b}}, at::kBFloat16),
            TiedHead::kEmbedding);
  EXPECT_EQ(Find({{kRows, a}, {kHeadWeight, a.to(at::kBFloat16)}}),
            TiedHead::kEmbedding);
  EXPECT_EQ(
      Find({{kRows, at::zeros({5, 3})}, {kHeadWeight, -at::zeros({5, 3})}}),
      TiedHead::kEmbedding);
}

class DecoderClassifierTest : public testing::Test {
 protected:
  // A language model's file: it has no "score".
  void SetUp() override {
    const auto folder = Golden("llama2", "model");
    config_ = *spec::ReadModelConfig(folder.string());
    config_.num_labels = 3;
    weights_ = *tensorfile::Weights::Open(folder);
    at::manual_seed(14);
    model_ = Open();
    inputs_.input_ids = at::randint(3, 100, {2, 6}, at::kLong);
    inputs_.lengths = at::tensor({6, 4}, at::kLong);
    inputs_.input_ids[1].narrow(0, 4, 2).fill_(*config_.pad_token_id);
  }
  std::unique_ptr<DecoderClassifier> Open() {
    at::manual_seed(14);
    return DecoderClassifier::Load({weights_.get()}, config_).value();
  }
  at::Tensor Row(int64_t row, int64_t length) {
    ClassifierInputs one;
    one.input_ids = inputs_.input_ids.narrow(0, row, 1).narrow(1, 0, length);
    one.lengths = at::tensor({length}, at::kLong);
    return model_->Logits(one)[0];
  }

  at::NoGradGuard no_grad_;
  spec::ModelConfig config_;
  std::unique_ptr<tensorfile::Weights> weights_;
  std::unique_ptr<DecoderClassifier> model_;
  ClassifierInputs inputs_;
};

TEST_F(DecoderClassifierTest, DrawsItsHeadAndTakesEachRowsLastToken) {
  EXPECT_THAT(model_->fresh_modules(), testing::ElementsAre("score"));
  EXPECT_EQ(model_->Linears().back()->name, "score");
  EXPECT_EQ(model_->NamedWeights().back().name, "score.weight");
  const at::Tensor logits = model_->Logits(inputs_);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_TRUE(at::allclose(logits[0], Row(0, 6), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(logits[1], Row(1, 4), 1e-4, 1e-5));
  // Texts that end in a token that also pads: Transformers takes the one
  // before.
  inputs_.input_ids[0][5] = *config_.pad_token_id;
  EXPECT_TRUE(at::allclose(model_->Logits(inputs_)[0], Row(0, 5), 1e-4, 1e-5));
  config_.pad_token_id.reset();
  model_ = Open();
  EXPECT_TRUE(at::allclose(model_->Logits(inputs_)[1], Row(1, 4), 1e-4, 1e-5));
}

TEST(RecomputeTest, RunsTwiceAndDrawsTheSameNumbers) {
  int runs = 0;
  std::vector<at::Tensor> drawn;
  auto run = [&](const at::Tensor& x) {
    ++runs;
    drawn.push_back(at::rand({4}));
    return x * drawn.back();
  };
  const at::Tensor x = at::ones({4}).requires_grad_();
  const at::Tensor y = Recompute(run, x);
  const at::Tensor between = at::rand({1});
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(at::equal(drawn[0], drawn[1]));
  EXPECT_TRUE(at::equal(x.grad(), drawn[0]));
  // The draws after it are not disturbed either.
  EXPECT_FALSE(at::equal(between, at::rand({1})));
}

TEST(RecomputeTest, WhereNothingIsDrawnTheGeneratorIsLeftAlone) {
  std::vector<at::Tensor> drawn;
  auto run = [&](const at::Tensor& x) {
    drawn.push_back(at::rand({4}));
    return x * 2;
  };
  const at::Tensor x = at::ones({4}).requires_grad_();
  Recompute(run, x, /*draws=*/false).sum().backward();
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_FALSE(at::equal(drawn[0], drawn[1]));
}

}  // namespace

}  // namespace mpsd::model
