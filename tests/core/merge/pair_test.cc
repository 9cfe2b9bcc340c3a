// SPDX-License-Identifier: Apache-2.0
#include "core/merge/pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.h"
#include "tests/core/merge/golden_pairs.h"

namespace mpsd::merge {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Pair> Golden(const std::string& name) {
  return Pair::Open(GoldenFolder(name, "model"), GoldenFolder(name, "adapter"));
}

TEST(PairTest, ALanguageModelHasNoLabels) {
  const auto pair = Golden("llama2");
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->task(), spec::Task::kCausalLm);
  EXPECT_EQ(pair->config().num_labels, 0);
  EXPECT_NE(pair->FindSaved("lm_head.weight"), nullptr);
  EXPECT_EQ(pair->FindSaved("model.norm.weight"), nullptr);
}

TEST(PairTest, TheAdaptersHeadSaysHowManyLabelsThereAre) {
  const auto pair = Golden("llama_classes");
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->task(), spec::Task::kSeqCls);
  EXPECT_EQ(pair->config().num_labels,
            pair->FindSaved("score.weight")->shape[0]);
  EXPECT_EQ(Golden("vit")->task(), spec::Task::kImageCls);
}

TEST(PairTest, LabelNamesAreThoseOfTheRunBesideTheAdapter) {
  const fs::path run = testing_support::FreshFolder("run");
  fs::copy(GoldenFolder("bert", "adapter"), run / "adapter");
  const auto names = [&] {
    return Pair::Open(GoldenFolder("bert", "model"), run / "adapter")
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

TEST(PairTest, AChangedHalfOfATieIsRefused) {
  const auto pair = Pair::Open(GoldenFolder("llama3", "model"),
                               GoldenFolder("llama2", "adapter"));
  EXPECT_EQ(pair.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(pair.status().message()),
              HasSubstr("tie_word_embeddings"));
}

TEST(PairTest, ATensorWithoutAPlaceIsRefused) {
  const auto pair = Pair::Open(GoldenFolder("llama2", "model"),
                               GoldenFolder("bert", "adapter"));
  EXPECT_FALSE(pair.ok());
}

}  // namespace
}  // namespace mpsd::merge
