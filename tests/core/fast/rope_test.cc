// SPDX-License-Identifier: Apache-2.0
#include "core/fast/rope.h"

#include "tests/core/fast/tiny.h"

namespace mpsd::fast {
namespace {

// x and dy [rows, length, heads, dim] against the model's own rotation.
void ExpectSame(const model::RotaryTable& table, const RopeTable& ours,
                int64_t rows, int64_t length, int64_t heads, int64_t dim) {
  const at::Tensor x =
      at::randn({rows, length, heads, dim}).requires_grad_(true);
  const at::Tensor dy = at::randn({rows, length, heads, dim});
  const at::Tensor y =
      model::Rotary::Apply(x.transpose(1, 2), table).transpose(1, 2);
  y.backward(dy);
  at::Tensor out = at::empty_like(x, at::MemoryFormat::Contiguous).detach();
  RopeForward(x.detach(), ours, out);
  EXPECT_LE(RelativeError(out, y), 1e-6);
  RopeBackward(dy, ours, out);
  EXPECT_LE(RelativeError(out, x.grad()), 1e-6);
}

TEST(RopeTest, RotatesAsTheModel) {
  const Tiny tiny;
  const model::RotaryTable table = tiny.decoder->rotary().Table(
      PackedInputs(2, 12).position_ids, at::kFloat);
  // Both halves in one call for few numbers a row, one by one for many.
  for (const int64_t heads : {6, 1 << 20}) {
    const RopeTable ours = MakeRopeTable(table, heads, Options{});
    EXPECT_FALSE(ours.rotation.defined());
    EXPECT_EQ(ours.signed_sin.defined(), heads == 6);
    ExpectSame(table, ours, 2, 12, 6, 8);
  }
}

TEST(RopeTest, HeadsMayLieInTwoDimensions) {
  const Tiny tiny;
  const model::RotaryTable table =
      tiny.decoder->rotary().Table(Inputs(2, 12).position_ids, at::kFloat);
  const RopeTable ours = MakeRopeTable(table, 6, Options{});
  const at::Tensor x = at::randn({2, 12, 6, 8});
  at::Tensor flat = at::empty_like(x), split = at::empty({2, 12, 2, 3, 8});
  RopeForward(x, ours, flat);
  RopeForward(x.view({2, 12, 2, 3, 8}), ours, split);
  EXPECT_TRUE(at::equal(split.view(x.sizes()), flat));
}

TEST(RopeTest, AsMatricesIsTheSame) {
  const Tiny tiny;
  const model::RotaryTable table =
      tiny.decoder->rotary().Table(at::arange(64).unsqueeze(0), at::kFloat);
  Options options;
  options.kernels = Kernels::kCuda;
  // Few numbers a row do not pay for them, many do.
  EXPECT_FALSE(MakeRopeTable(table, 4, options).rotation.defined());
  const RopeTable ours = MakeRopeTable(table, 4096, options);
  ASSERT_TRUE(ours.rotation.defined());
  ExpectSame(table, ours, 3, 64, 5, 8);
}

}  // namespace
}  // namespace mpsd::fast
