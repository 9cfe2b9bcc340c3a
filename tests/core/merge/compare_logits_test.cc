// SPDX-License-Identifier: Apache-2.0
#include "core/merge/compare_logits.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/core/merge/golden_adapted_models.h"

namespace mpsd::merge {
namespace {

class CompareLogitsTest : public testing::Test {
 protected:
  CompareLogitsTest() { EXPECT_TRUE(Merge(options_).ok()); }
  absl::StatusOr<Comparison> Compare(const std::filesystem::path& folder,
                                     int64_t max_bytes) {
    return CompareLogits(adapted_, folder, at::kFloat, max_bytes);
  }
  const MergeOptions options_ = GoldenMerge("llama2");
  const AdaptedModel adapted_ =
      *AdaptedModel::Open(options_.model, options_.adapter);
};

TEST_F(CompareLogitsTest, AMergedModelPasses) {
  const auto compared = Compare(options_.out, int64_t{1} << 30);
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_EQ(compared->layers, adapted_.config().num_hidden_layers);
  EXPECT_LT(compared->error, 1e-5);
}

TEST_F(CompareLogitsTest, ALargeModelIsComparedByItsFirstLayers) {
  const auto compared = Compare(options_.out, 1);
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_EQ(compared->layers, 1);
  EXPECT_GT(adapted_.config().num_hidden_layers, 1);
}

TEST_F(CompareLogitsTest, TheBaseModelIsNotTheMergedOne) {
  EXPECT_EQ(Compare(options_.model, int64_t{1} << 30).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace mpsd::merge
