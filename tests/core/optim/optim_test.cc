// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/optim/adamw.h"
#include "core/optim/parameters.h"
#include "core/optim/schedule.h"
#include "tests/core/status_matchers.h"

// Shapes and edges; equality with Transformers is tests/core/parity's.

namespace mpsd::optim {
namespace {

using testing_support::Fails;

spec::TrainingSpec Spec() {
  spec::TrainingSpec spec;
  spec.weight_decay = 0.1;
  spec.adam_beta1 = 0.8;
  spec.adam_beta2 = 0.9;
  spec.adam_epsilon = 1e-6;
  return spec;
}

TEST(AdamWTest, NormIsOverAllGroupsAndClippingScalesDownOnly) {
  ParameterSet set({{"lora_A.weight", at::zeros({1})},
                    {"model.norm.weight", at::zeros({1})}},
                   at::kCPU);
  AdamW optimizer(set, Spec());
  at::Tensor first = set.groups()[0].gradients;
  at::Tensor second = set.groups()[1].gradients;
  first.fill_(3);
  second.fill_(4);
  const at::Tensor norm = optimizer.GradientNorm();
  EXPECT_FLOAT_EQ(norm.item<float>(), 5);
  optimizer.Clip(norm, 10);
  EXPECT_FLOAT_EQ(first.item<float>(), 3);
  optimizer.Clip(norm, 1);
  EXPECT_NEAR(first.item<float>(), 0.6, 1e-6);
  EXPECT_NEAR(second.item<float>(), 0.8, 1e-6);
}

TEST(AdamWTest, NormOfManyNumbersKeepsItsDigits) {
  ParameterSet set({{"w.weight", at::zeros({(1 << 22) + 5})}}, at::kCPU);
  at::Tensor gradients = set.groups()[0].gradients;
  at::manual_seed(1);
  gradients.normal_();
  const double expected = gradients.to(at::kDouble).norm().item<double>();
  const double norm = AdamW(set, Spec()).GradientNorm().item<float>();
  EXPECT_NEAR(norm / expected, 1, 1e-6);  // one sum in fp32: 1e-4 off
}

using Initial = std::vector<std::pair<std::string, at::Tensor>>;

TEST(ParameterSetTest, ParametersAreContiguousViewsOfTheirGroup) {
  const Initial initial = {{"a.lora_A.weight", at::randn({2, 3})},
                           {"model.norm.weight", at::randn({4})},
                           {"a.lora_B.weight", at::randn({3, 2})}};
  ParameterSet set(initial, at::kCPU);
  ASSERT_EQ(set.groups().size(), 2u);
  EXPECT_TRUE(set.groups()[0].decay);
  EXPECT_EQ(set.groups()[0].values.numel(), 12);
  EXPECT_FALSE(set.groups()[1].decay);
  EXPECT_EQ(set.element_count(), 16);
  for (size_t i = 0; i < initial.size(); ++i) {
    const Parameter& p = set.parameters()[i];
    EXPECT_EQ(p.name, initial[i].first);
    EXPECT_TRUE(at::equal(p.value, initial[i].second));
    EXPECT_TRUE(p.value.is_leaf() && p.value.requires_grad());
    EXPECT_TRUE(p.value.is_contiguous() && p.value.grad().is_contiguous());
  }
  set.groups()[0].values.narrow(0, 0, 6).fill_(9);
  EXPECT_TRUE(at::equal(set.Find("a.lora_A.weight")->value.detach(),
                        at::full({2, 3}, 9.0)));
  EXPECT_EQ(set.Find("none"), nullptr);
}

TEST(ParameterSetTest, TheBackwardAddsIntoTheFlatGradients) {
  ParameterSet set(Initial{{"x.lora_A.weight", at::ones({2})},
                           {"x.lora_B.weight", at::ones({3})}},
                   at::kCPU);
  for (int i = 0; i < 2; ++i) {
    (set.parameters()[0].value.sum() + 2 * set.parameters()[1].value.sum())
        .backward();
  }
  EXPECT_TRUE(at::equal(set.groups()[0].gradients,
                        at::tensor({2.f, 2.f, 4.f, 4.f, 4.f})));
  set.ZeroGradients();
  EXPECT_EQ(set.groups()[0].gradients.abs().sum().item<float>(), 0);
  set.parameters()[0].value.sum().backward();
  EXPECT_EQ(set.groups()[0].gradients.sum().item<float>(), 2);
}

TEST(ParameterSetTest, ALargeGroupIsSeveral) {
  const Initial initial = {{"a.weight", at::arange(6, at::kFloat).view({2, 3})},
                           {"b.bias", at::ones({4})},
                           {"c.weight", at::arange(5, at::kFloat)},
                           {"d.weight", at::arange(20, at::kFloat)},
                           {"e.weight", at::arange(2, at::kFloat)}};
  const ParameterSet set(initial, at::kCPU, /*max_group_elements=*/10);
  std::vector<int64_t> sizes;
  for (const auto& group : set.groups()) sizes.push_back(group.values.numel());
  EXPECT_EQ(sizes, (std::vector<int64_t>{6, 5, 20, 2, 4}));
  EXPECT_FALSE(set.groups().back().decay);
  for (size_t i = 0; i < initial.size(); ++i) {
    EXPECT_EQ(set.parameters()[i].name, initial[i].first);
    EXPECT_TRUE(
        at::equal(set.parameters()[i].value.detach(), initial[i].second));
  }
}

// Gradients of copies are summed in fp32, and copies follow the optimizer.
TEST(ParameterSetTest, CopiesAreLeavesWhoseGradientsGoToTheParameters) {
  ParameterSet set(Initial{{"table.weight", at::ones({3, 2})},
                           {"q.weight", at::full({2, 2}, 1.01)},
                           {"q.bias", at::ones({2})},
                           {"k.weight", at::full({1, 2}, 3.0)}},
                   at::kCPU);
  set.MakeCopies(at::kBFloat16, {1, 3});
  EXPECT_EQ(set.groups()[0].copies.numel(), 6) << "without the table";
  EXPECT_FALSE(set.groups()[1].copies.defined());
  const at::Tensor q = set.CopyOf(1), k = set.CopyOf(3);
  EXPECT_EQ(q.sizes(), at::IntArrayRef({2, 2}));
  EXPECT_EQ(q.scalar_type(), at::kBFloat16);
  at::Tensor gradients = set.groups()[0].gradients;
  gradients.fill_(9);
  for (const float first : {1.f, 2.f}) {  // by step; 257 is no bf16 number
    set.ZeroGradients();
    for (const float factor : {first, 256.f}) {
      ((q * factor).sum() + (k * factor).sum()).backward();
    }
    EXPECT_TRUE(q.grad().is_alias_of(gradients));
    EXPECT_TRUE(at::equal(k.grad(), set.parameters()[3].value.grad()));
    EXPECT_TRUE(
        at::equal(gradients.narrow(0, 6, 6), at::full({6}, first + 256)));
    EXPECT_EQ(gradients.narrow(0, 0, 6).abs().sum().item<float>(), 0);
  }
  AdamW(set, Spec()).Step(0.5);
  EXPECT_TRUE(at::equal(k, set.parameters()[3].value.to(at::kBFloat16)));
  EXPECT_NE(k[0][0].item<float>(), 3);
}

spec::TrainingSpec ScheduleSpec(const std::string& type) {
  spec::TrainingSpec spec;
  spec.learning_rate = 2;
  spec.lr_scheduler_type = type;
  return spec;
}

TEST(ScheduleTest, WarmupStepsOverrideTheRatioWhichRoundsUp) {
  spec::TrainingSpec spec = ScheduleSpec("constant_with_warmup");
  spec.warmup_ratio = 0.11;
  EXPECT_EQ(Schedule::Create(spec, 10)->warmup_steps(), 2);
  spec.warmup_steps = 5;
  EXPECT_EQ(Schedule::Create(spec, 10)->warmup_steps(), 5);
  spec.warmup_steps = 0.21;  // ceil(10 · 0.21), as TrainingArguments' of 5
  EXPECT_EQ(Schedule::Create(spec, 10)->warmup_steps(), 3);
}

TEST(ScheduleTest, AnUnknownTypeIsNamedWithTheKnownOnes) {
  EXPECT_THAT(Schedule::Create(ScheduleSpec("cosin"), 8),
              Fails(absl::StatusCode::kInvalidArgument,
                    testing::AllOf(testing::HasSubstr("cosin"),
                                   testing::HasSubstr("inverse_sqrt"))));
}

}  // namespace

}  // namespace mpsd::optim
