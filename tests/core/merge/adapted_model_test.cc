// SPDX-License-Identifier: Apache-2.0
#include "core/merge/adapted_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.h"
#include "tests/core/merge/golden_adapted_models.h"

namespace mpsd::merge {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<AdaptedModel> Golden(const std::string& name) {
  return AdaptedModel::Open(GoldenFolder(name, "model"),
                            GoldenFolder(name, "adapter"));
}

TEST(AdaptedModelTest, ALanguageModelHasNoLabels) {
  const auto adapted = Golden("llama2");
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  EXPECT_EQ(adapted->task(), spec::Task::kCausalLm);
  EXPECT_EQ(adapted->config().num_labels, 0);
  EXPECT_NE(adapted->FindSaved("lm_head.weight"), nullptr);
  EXPECT_EQ(adapted->FindSaved("model.norm.weight"), nullptr);
}

TEST(AdaptedModelTest, TheAdaptersHeadSaysHowManyLabelsThereAre) {
  const auto adapted = Golden("llama_classes");
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  EXPECT_EQ(adapted->task(), spec::Task::kSeqCls);
  EXPECT_EQ(adapted->config().num_labels,
            adapted->FindSaved("score.weight")->shape[0]);
  EXPECT_EQ(Golden("vit")->task(), spec::Task::kImageCls);
}

TEST(AdaptedModelTest, LabelNamesAreThoseOfTheRunBesideTheAdapter) {
  const fs::path run = testing_support::FreshFolder("run");
  fs::copy(GoldenFolder("bert", "adapter"), run / "adapter");
  const auto names = [&] {
    return AdaptedModel::Open(GoldenFolder("bert", "model"), run / "adapter")
        ->LabelNames();
  };
  const auto before = names();
  EXPECT_EQ(before.size(), 3u);
  ASSERT_TRUE(
      base::WriteFileAtomic(run / "run.json",
                            R"({"labels": {"names": ["bad", "fair", "good"]}})")
          .ok());
  EXPECT_THAT(names(), ElementsAre("bad", "fair", "good"));
}

TEST(AdaptedModelTest, AChangedHalfOfATieIsRefused) {
  const auto adapted = AdaptedModel::Open(GoldenFolder("llama3", "model"),
                                          GoldenFolder("llama2", "adapter"));
  EXPECT_EQ(adapted.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(adapted.status().message()),
              HasSubstr("tie_word_embeddings"));
}

TEST(AdaptedModelTest, ATensorWithoutAPlaceIsRefused) {
  const auto adapted = AdaptedModel::Open(GoldenFolder("llama2", "model"),
                                          GoldenFolder("bert", "adapter"));
  EXPECT_FALSE(adapted.ok());
}

}  // namespace
}  // namespace mpsd::merge
