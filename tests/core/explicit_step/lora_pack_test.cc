// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/lora_pack.h"

#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
namespace {

const lora::LoraLinear& LoraOf(const model::Linear& linear) {
  return dynamic_cast<const lora::LoraLinear&>(*linear.adapter);
}

TEST(LoraPackTest, HoldsScaledBlocksOfItsAdapters) {
  const Tiny tiny;
  const model::DecoderLayer& layer = tiny.layer();
  LoraPack pack;
  const LoraGroup& group = *pack.Add({{&layer.q, &layer.k}, {&layer.v}}, {});
  pack.Allocate(at::kCPU, at::kFloat);
  EXPECT_EQ(pack.adapters(), 3);
  pack.Refresh();
  const at::Tensor a =
      at::cat({LoraOf(layer.q).a(), LoraOf(layer.k).a(), LoraOf(layer.v).a()})
          .detach();
  EXPECT_TRUE(at::equal(group.a, a));
  const at::Tensor blocks = at::block_diag(
      {LoraOf(layer.q).b().detach().t(), LoraOf(layer.k).b().detach().t()});
  EXPECT_TRUE(at::equal(group.parts[0].b, blocks * 2));
  EXPECT_TRUE(
      at::equal(group.parts[1].b, LoraOf(layer.v).b().detach().t() * 2));
}

TEST(LoraPackTest, GivesGradientsBackScaled) {
  const Tiny tiny;
  const model::DecoderLayer& layer = tiny.layer();
  const at::Tensor norm = at::rand({16}) + 0.5;
  LoraPack pack;
  const LoraGroup& group = *pack.Add({{&layer.q}}, norm);
  pack.Allocate(at::kCPU, at::kFloat);
  pack.Refresh();
  group.grad_a.copy_(at::randn({3, 16}));
  group.parts[0].grad_b.copy_(at::randn({3, 32}));
  const at::Tensor da = group.grad_a.clone();
  const at::Tensor db = group.parts[0].grad_b.clone();
  pack.CollectGradients();
  EXPECT_TRUE(at::equal(LoraOf(layer.q).a().grad(), da * norm));
  EXPECT_TRUE(at::equal(LoraOf(layer.q).b().grad(), db.t() * 2));
  pack.Refresh();
  EXPECT_EQ(group.grad_a.abs().max().item<float>(), 0);
}

TEST(LoraPackTest, PacksInTheDtypeOfActivations) {
  const Tiny tiny;
  LoraPack pack;
  const LoraGroup& group = *pack.Add({{&tiny.layer().o}}, {});
  pack.Allocate(at::kCPU, at::kBFloat16);
  pack.Refresh();
  EXPECT_EQ(group.a.scalar_type(), at::kBFloat16);
  EXPECT_EQ(group.grad_a.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(group.a,
                        LoraOf(tiny.layer().o).a().detach().to(at::kBFloat16)));
}

TEST(LoraPackDeathTest, AllocateComesBetweenAddAndRefresh) {
  const Tiny tiny;
  LoraPack pack;
  pack.Add({{&tiny.layer().o}}, {});
  EXPECT_DEATH(pack.Refresh(), "Allocate comes before Refresh");
  pack.Allocate(at::kCPU, at::kFloat);
  EXPECT_DEATH(pack.Add({{&tiny.layer().q}}, {}), "every Add comes before");
}

}  // namespace
}  // namespace mpsd::explicit_step
