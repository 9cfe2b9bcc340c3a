// SPDX-License-Identifier: Apache-2.0
#include "core/host/traits.h"

#include <gtest/gtest.h>

namespace mpsd::backend {
namespace {

TEST(ChoiceTest, EveryNameComesBack) {
  for (const auto& [name, choice] : kChoices) {
    EXPECT_EQ(NameOf(choice), name);
    EXPECT_EQ(ChoiceOf(name), choice);
  }
  EXPECT_EQ(ChoiceOf("tpu"), std::nullopt);
  EXPECT_EQ(ChoiceOf(""), std::nullopt);
}

TEST(TraitsTest, TheDefaultsAreTheReferences) {
  EXPECT_TRUE(TraitsOf(Choice::kCpu).is_reference);
  EXPECT_TRUE(Traits().is_reference);
  EXPECT_EQ(Traits().memory, MemoryPlace::kHost);
  EXPECT_FALSE(Traits().own_generator);
  for (const Choice choice : {Choice::kCuda, Choice::kMps}) {
    EXPECT_FALSE(TraitsOf(choice).is_reference);
    EXPECT_TRUE(TraitsOf(choice).own_generator);
  }
}

TEST(TraitsTest, MpsAloneGetsThingsWrong) {
  const Traits& mps = TraitsOf(Choice::kMps);
  EXPECT_EQ(mps.max_sum, 32'766);
  EXPECT_FALSE(mps.transposed_left);
  EXPECT_FALSE(mps.strided_targets);
  EXPECT_FALSE(mps.softmax_in_place);
  EXPECT_FALSE(mps.exact_softmax_backward);
  EXPECT_FALSE(mps.mixes_dtypes);
  EXPECT_TRUE(mps.lacks_operators);
  EXPECT_TRUE(mps.silent_out_of_memory);
  for (const Choice choice : {Choice::kCpu, Choice::kCuda}) {
    const Traits& right = TraitsOf(choice);
    EXPECT_FALSE(right.max_sum.has_value());
    EXPECT_TRUE(right.transposed_left);
    EXPECT_TRUE(right.strided_targets);
    EXPECT_TRUE(right.softmax_in_place);
    EXPECT_TRUE(right.exact_softmax_backward);
    EXPECT_TRUE(right.mixes_dtypes);
    EXPECT_FALSE(right.lacks_operators);
    EXPECT_FALSE(right.silent_out_of_memory);
  }
}

TEST(TraitsTest, EachHasTheAttentionThatTrainsThere) {
  EXPECT_EQ(TraitsOf(Choice::kCpu).fused_attention, FusedAttention::kByRow);
  EXPECT_EQ(TraitsOf(Choice::kCuda).fused_attention, FusedAttention::kByToken);
  EXPECT_EQ(TraitsOf(Choice::kMps).fused_attention, FusedAttention::kNone);
  EXPECT_TRUE(TraitsOf(Choice::kCpu).attends_fused());
  EXPECT_TRUE(TraitsOf(Choice::kCuda).attends_fused());
  EXPECT_FALSE(TraitsOf(Choice::kMps).attends_fused());
}

// A job that names no device is estimated for the one that mpsd is for.
TEST(TraitsTest, AutoIsTakenForMps) {
  EXPECT_EQ(&TraitsOf(Choice::kAuto), &TraitsOf(Choice::kMps));
}

}  // namespace
}  // namespace mpsd::backend
