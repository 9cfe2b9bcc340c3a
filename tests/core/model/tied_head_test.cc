// SPDX-License-Identifier: Apache-2.0
#include "core/model/tied_head.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/tensorfile/safetensors.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::model {
namespace {

constexpr char kRows[] = "model.embed_tokens.weight";

TiedHead Find(const tensorfile::NamedTensors& tensors,
              at::ScalarType dtype = at::kFloat) {
  const auto folder = testing_support::FreshFolder("tied_head");
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  const auto weights = *tensorfile::Weights::Open(folder);
  const auto found = FindTiedHead(*weights, kRows, dtype);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or(TiedHead::kBoth);
}

TEST(FindTiedHeadTest, GoesByWhatTheFileHas) {
  const at::Tensor a = at::randn({5, 3}), b = at::randn({5, 3});
  EXPECT_EQ(Find({{kRows, a}}), TiedHead::kEmbedding);
  EXPECT_EQ(Find({{kHeadWeight, a}}), TiedHead::kHead);
  EXPECT_EQ(Find({{kRows, a}, {kHeadWeight, a}}), TiedHead::kEmbedding);
  EXPECT_EQ(Find({{kRows, a}, {kHeadWeight, b}}), TiedHead::kBoth);
  EXPECT_EQ(Find({{kRows, a}, {kHeadWeight, a.narrow(0, 0, 4)}}),
            TiedHead::kBoth);
  EXPECT_EQ(Find({{"norm", a}}), TiedHead::kEmbedding) << "said by the loader";
}

// As torch.equal of what was loaded: in bf16 a last bit of fp32 is none.
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

}  // namespace
}  // namespace mpsd::model
