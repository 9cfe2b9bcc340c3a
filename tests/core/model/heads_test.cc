// SPDX-License-Identifier: Apache-2.0
// Files whose tensors are not those that config.json speaks of, and what
// Transformers makes of them (tests/golden/heads.py).
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/tensorfile/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
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
  auto config = spec::ReadModelConfig(folder.string());
  if (!config.ok()) return config.status();
  const auto weights = tensorfile::Weights::Open(folder);
  if (!weights.ok()) return weights.status();
  const WeightSource source{weights->get()};
  if (config->family == spec::Family::kEncoder) {
    config->num_labels = config->head.num_labels.value_or(2);
    auto texts = Classifier::Load(source, *config);
    if (!texts.ok()) return texts.status();
    return std::unique_ptr<Network>(*std::move(texts));
  }
  auto decoder = Decoder::Load(source, *config);
  if (!decoder.ok()) return decoder.status();
  return std::unique_ptr<Network>(*std::move(decoder));
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
    auto loaded = Load(Write(GetParam(), case_));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    network_ = *std::move(loaded);
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

TEST(HeadsCasesTest, EveryCaseIsTried) { EXPECT_EQ(Cases().size(), 8u); }

TEST(HeadsCasesTest, AHeadThatIsNotThereAndNotTiedIsNamed) {
  json c = Cases()["untied"];
  c["drop"] = json::array({"lm_head.weight"});
  const absl::Status status = Load(Write("no_head", c)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("\"tie_word_embeddings\": true"));
}

}  // namespace
}  // namespace mpsd::model
