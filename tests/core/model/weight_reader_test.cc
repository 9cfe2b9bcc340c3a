// SPDX-License-Identifier: Apache-2.0
#include "core/model/weight_reader.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/tensorfile/safetensors.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<tensorfile::Weights> Stored(
    const tensorfile::NamedTensors& tensors) {
  const auto folder = testing_support::FreshFolder("weight_reader_test");
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  return *tensorfile::Weights::Open(folder);
}

TEST(WeightReaderTest, FindsAHeadlessModelsNames) {
  const auto weights = Stored(
      {{"layer.weight", at::ones({2, 3})}, {"layer.bias", at::ones({2})}});
  WeightReader reader({weights.get()}, "bert.", 0.02);
  const Linear linear = reader.MakeLinear("bert.layer", 2, 3, true);
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  EXPECT_TRUE(at::equal(linear.weight, at::ones({2, 3})));
  EXPECT_EQ(linear.name, "bert.layer");
  EXPECT_TRUE(reader.Contains("bert.layer.weight"));
  EXPECT_FALSE(reader.Contains("classifier.weight"));
}

TEST(WeightReaderTest, FindsTheOldNamesOfNorms) {
  const auto weights = Stored({{"LayerNorm.gamma", at::full({2}, 3.0)},
                               {"LayerNorm.beta", at::full({2}, 4.0)}});
  WeightReader reader({weights.get()}, "bert.", 0.02);
  const LayerNorm norm = reader.MakeLayerNorm("bert.LayerNorm", 2, 1e-12);
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  EXPECT_TRUE(at::equal(norm.weight, at::full({2}, 3.0)));
  EXPECT_TRUE(at::equal(norm.bias, at::full({2}, 4.0)));
}

TEST(WeightReaderTest, KeepsTheFirstError) {
  const auto weights = Stored({{"a.weight", at::ones({2, 3})}});
  WeightReader reader({weights.get()}, "", 0.02);
  EXPECT_FALSE(reader.Tensor("first", {1}).defined());
  EXPECT_FALSE(reader.MakeLinear("a", 2, 3, false).weight.defined());
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr("first"));
}

TEST(WeightReaderTest, DrawsAHeadThatTheFileLacks) {
  const auto weights = Stored({{"a.weight", at::ones({2, 3})}});
  at::manual_seed(7);
  WeightReader reader({weights.get()}, "", 0.5);
  const Linear head = reader.MakeHead("classifier", 2, 64, true);
  ASSERT_TRUE(reader.status().ok());
  at::manual_seed(7);
  EXPECT_TRUE(at::equal(head.weight, at::empty({2, 64}).normal_(0, 0.5)));
  EXPECT_TRUE(at::equal(head.bias, at::zeros({2})));
  EXPECT_THAT(reader.fresh_modules(), ElementsAre("classifier"));
}

TEST(WeightReaderTest, AHeadOfAnotherShapeIsAnErrorUnlessIgnored) {
  const auto weights = Stored({{"classifier.weight", at::ones({3, 4})},
                               {"classifier.bias", at::ones({3})}});
  WeightReader strict({weights.get()}, "", 0.02);
  strict.MakeHead("classifier", 2, 4, true);
  EXPECT_THAT(std::string(strict.status().message()),
              testing::AllOf(HasSubstr("[3, 4]"), HasSubstr("[2, 4]"),
                             HasSubstr("ignore_mismatched_sizes")));
  WeightReader lenient({weights.get(), at::kCPU, at::kFloat, true}, "", 0.02);
  EXPECT_EQ(lenient.MakeHead("classifier", 2, 4, true).out_features(), 2);
  EXPECT_THAT(lenient.fresh_modules(), ElementsAre("classifier"));
  WeightReader fitting({weights.get()}, "", 0.02);
  EXPECT_TRUE(at::equal(fitting.MakeHead("classifier", 3, 4, true).weight,
                        at::ones({3, 4})));
  EXPECT_THAT(fitting.fresh_modules(), IsEmpty());
}

TEST(WeightReaderTest, DrawsAWholeNetworkInTheOrderOfTheCalls) {
  at::manual_seed(3);
  WeightReader reader({nullptr, at::kCPU, at::kBFloat16}, "", 0.02,
                      Initial::kTruncatedNormal);
  const Embedding table = reader.MakeEmbedding("e", 5, 8, 1);
  const Linear linear = reader.MakeLinear("l", 4, 8, true);
  const LayerNorm norm = reader.MakeLayerNorm("n", 8, 1e-5);
  const RmsNorm rms = reader.MakeRmsNorm("r", 8, 1e-5);
  at::manual_seed(3);
  at::Tensor expected = at::empty({5, 8}).normal_(0, 0.02);
  expected.select(0, 1).zero_();
  EXPECT_TRUE(at::equal(table.weight, expected.to(at::kBFloat16)));
  EXPECT_EQ(table.padding_row, 1);
  EXPECT_TRUE(at::equal(linear.weight,
                        at::empty({4, 8}).normal_(0, 0.02).to(at::kBFloat16)));
  EXPECT_EQ(linear.bias.abs().sum().item<float>(), 0);
  EXPECT_EQ(norm.weight.sum().item<float>(), 8);
  EXPECT_EQ(norm.bias.abs().sum().item<float>(), 0);
  EXPECT_EQ(rms.weight.sum().item<float>(), 8);
  EXPECT_THAT(reader.fresh_modules(), IsEmpty());
}

TEST(WeightReaderTest, ATruncatedNormalStaysWithinItsBounds) {
  WeightReader reader({}, "", 1.5, Initial::kTruncatedNormal);
  const at::Tensor t = reader.MakeLinear("l", 100, 100, false).weight;
  EXPECT_LE(t.abs().max().item<float>(), 2);
  EXPECT_GT(t.abs().max().item<float>(), 1.9);
}

TEST(WeightReaderTest, PaddingRowsCountAsPythonsIndices) {
  WeightReader reader({}, "", 0.02);
  EXPECT_EQ(reader.MakeEmbedding("e", 5, 2, -1).padding_row, 4);
  EXPECT_EQ(reader.MakeEmbedding("e", 5, 2, 5).padding_row, -1);
  EXPECT_EQ(reader.MakeEmbedding("e", 5, 2).padding_row, -1);
}

TEST(WeightReaderTest, QuantisesTheLinearsOfBlocksAsItReadsThem) {
  const std::string block = "model.layers.0.mlp.up_proj";
  const at::Tensor weight = at::randn({6, 64}), bias = at::randn({6});
  const auto weights = Stored({{block + ".weight", weight},
                               {block + ".bias", bias},
                               {"lm_head.weight", weight}});
  WeightSource source{weights.get()};
  source.quantization.load_in_4bit = true;
  WeightReader reader(source, "", 0.02);
  const Linear linear = reader.MakeLinear(block, 6, 64, true);
  const Linear head = reader.MakeLinear("lm_head", 6, 64, false);
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  ASSERT_NE(linear.quantized, nullptr);
  EXPECT_FALSE(linear.weight.defined());
  EXPECT_EQ(linear.in_features(), 64);
  EXPECT_EQ(linear.out_features(), 6);
  EXPECT_EQ(head.quantized, nullptr);
  const at::Tensor dense = linear.Dense(at::kFloat);
  EXPECT_TRUE(at::allclose(dense, weight, 0, 0.6));
  EXPECT_FALSE(at::equal(dense, weight));
  const at::Tensor x = at::randn({2, 3, 64});
  EXPECT_TRUE(at::equal(linear.Forward(x), at::linear(x, dense, bias)));
}

TEST(WeightReaderTest, ReadsWhatIsStoredQuantised) {
  const at::Tensor codes = at::randint(-127, 128, {4, 8}).to(at::kChar);
  const auto weights = Stored({{"model.layers.0.o.weight", codes},
                               {"model.layers.0.o.SCB", at::full({4}, 127.0)}});
  WeightReader reader({weights.get()}, "", 0.02);
  const Linear linear = reader.MakeLinear("model.layers.0.o", 4, 8, false);
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  EXPECT_TRUE(at::allclose(linear.Dense(at::kFloat), codes.to(at::kFloat)));
}

TEST(WeightReaderTest, AMissingWeightIsAnErrorWhereItIsQuantisedToo) {
  const auto weights = Stored({{"another", at::ones({1})}});
  WeightSource source{weights.get()};
  source.quantization.load_in_8bit = true;
  WeightReader reader(source, "", 0.02);
  reader.MakeLinear("model.layers.0.o", 4, 8, false);
  EXPECT_THAT(std::string(reader.status().message()),
              HasSubstr("model.layers.0.o.weight"));
}

}  // namespace
}  // namespace mpsd::model
