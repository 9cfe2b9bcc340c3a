// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "core/model/vit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/model/golden_vit.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::model {
namespace {

constexpr uint64_t kSeed = 4321;  // of tests/golden/vit.py

at::Tensor Logits(const Classifier& model) {
  ClassifierInputs inputs;
  inputs.pixels = GoldenVit("vit")["pixels"];
  return model.Logits(inputs);
}

// The golden model under other names; "" leaves a weight out.
template <typename Rename>
absl::StatusOr<std::unique_ptr<Classifier>> LoadRenamed(
    const std::string& folder_name, const Rename& rename,
    bool ignore_mismatched_heads = false) {
  auto file = tensorfile::SafetensorsFile::Open(VitFolder("vit") /
                                                "model/model.safetensors");
  EXPECT_TRUE(file.ok()) << file.status();
  tensorfile::NamedTensors tensors;
  for (const auto& [name, entry] : (*file)->entries()) {
    const std::string renamed = rename(name);
    if (!renamed.empty()) tensors.emplace_back(renamed, *(*file)->Load(name));
  }
  const auto folder = testing_support::FreshFolder(folder_name);
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  auto weights = tensorfile::Weights::Open(folder);
  EXPECT_TRUE(weights.ok()) << weights.status();
  return LoadVisionClassifier(
      {weights->get(), at::kCPU, at::kFloat, ignore_mismatched_heads},
      VitConfig("vit"));
}

TEST(LoadVisionClassifier, DrawsWhatTransformersDraws) {
  for (const char* name : {"vit", "vit_grey"}) {
    const GoldenVit golden(name);
    Seed(kSeed);
    auto model = LoadVisionClassifier({}, VitConfig(name));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->fresh_modules().empty());
    for (const NamedWeight& weight : (*model)->NamedWeights()) {
      if (golden.Has("init." + weight.name)) {
        EXPECT_TRUE(at::equal(weight.tensor->flatten().slice(0, 0, 8),
                              golden["init." + weight.name]))
            << weight.name;
      } else {
        const bool norm = weight.name.ends_with("weight");
        EXPECT_TRUE(at::equal(*weight.tensor,
                              at::full_like(*weight.tensor, norm ? 1 : 0)))
            << weight.name;
      }
    }
  }
}

TEST(LoadVisionClassifier, IsWhatClassifierLoadsForTheFamily) {
  auto model = Classifier::Load({}, VitConfig("vit"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_NE(dynamic_cast<Vit*>(model->get()), nullptr);
}

TEST(LoadVisionClassifier, ReadsNamesOfModules) {
  auto model = LoadRenamed("vit_modules", [](std::string name) {
    for (const auto& [from, to] :
         std::vector<std::pair<std::string, std::string>>{
             {"encoder.layer", "layers"},
             {"attention.attention.query", "attention.q_proj"},
             {"attention.attention.key", "attention.k_proj"},
             {"attention.attention.value", "attention.v_proj"},
             {"attention.output.dense", "attention.o_proj"},
             {"intermediate.dense", "mlp.fc1"},
             {"output.dense", "mlp.fc2"}}) {
      const size_t at = name.find(from);
      if (at != std::string::npos) name.replace(at, from.size(), to);
    }
    return name;
  });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(at::equal(Logits(**model), Logits(*LoadVit("vit"))));
}

// As ViTModel is saved: no prefix and no head.
TEST(LoadVisionClassifier, DrawsTheHeadThatABaseModelLacks) {
  auto model = LoadRenamed("vit_base", [](const std::string& name) {
    return name.rfind("vit.", 0) == 0 ? name.substr(4) : std::string();
  });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->fresh_modules(), std::vector<std::string>{"classifier"});
  EXPECT_EQ((*model)->NamedWeights().size(),
            LoadVit("vit")->NamedWeights().size());
}

TEST(LoadVisionClassifier, NamesTheWeightThatIsMissing) {
  auto model = LoadRenamed("vit_missing", [](const std::string& name) {
    return name == "vit.encoder.layer.1.output.dense.weight" ? std::string()
                                                             : name;
  });
  EXPECT_THAT(std::string(model.status().message()),
              testing::HasSubstr("vit.encoder.layer.1.output.dense.weight"));
}

TEST(LoadVisionClassifier, TellsProgressUpToOne) {
  auto weights = tensorfile::Weights::Open(VitFolder("vit") / "model");
  ASSERT_TRUE(weights.ok()) << weights.status();
  std::vector<double> shares;
  auto model = LoadVisionClassifier({weights->get()}, VitConfig("vit"),
                                    [&](double s) { shares.push_back(s); });
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares.back(), 1);
}

}  // namespace
}  // namespace mpsd::model
