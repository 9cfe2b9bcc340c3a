// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/rope.h"

#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
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
  EXPECT_LE(RelativeError(RopeForward(x.detach(), ours), y), 1e-6);
  EXPECT_LE(RelativeError(RopeBackward(dy, ours), x.grad()), 1e-6);
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

TEST(RopeTest, AsMatricesIsTheSame) {
  const Tiny tiny;
  const model::RotaryTable table =
      tiny.decoder->rotary().Table(at::arange(64).unsqueeze(0), at::kFloat);
  for (const Choice choice : {Choice::kCuda, Choice::kMps}) {
    Options options;
    options.traits = backend::TraitsOf(choice);
    const RopeTable ours = MakeRopeTable(table, 6, options);
    ASSERT_TRUE(ours.rotation.defined());
    ExpectSame(table, ours, 3, 64, 5, 8);
    // Position by position, whatever order x has.
    const at::Tensor x = at::randn({64, 3, 5, 8}).transpose(0, 1);
    const at::Tensor y = RopeForward(x, ours);
    EXPECT_TRUE(y.transpose(0, 1).is_contiguous());
    EXPECT_TRUE(at::equal(RopeForward(x.contiguous(), ours), y));
  }
}

TEST(RopeTest, RowsOfTheirOwnPositionsHaveNoMatrices) {
  const Tiny tiny;
  const model::RotaryTable table = tiny.decoder->rotary().Table(
      PackedInputs(2, 12).position_ids, at::kFloat);
  Options options;
  options.traits = backend::TraitsOf(Choice::kMps);
  const RopeTable ours = MakeRopeTable(table, 6, options);
  EXPECT_FALSE(ours.rotation.defined());
  ExpectSame(table, ours, 2, 12, 6, 8);
}

}  // namespace
}  // namespace mpsd::explicit_step
