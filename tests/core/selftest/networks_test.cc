// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/networks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

void ExpectSameNumbers(model::Network& a, model::Network& b) {
  const auto as = a.NamedWeights(), bs = b.NamedWeights();
  ASSERT_EQ(as.size(), bs.size());
  for (size_t i = 0; i < as.size(); ++i) {
    EXPECT_TRUE(
        at::equal(as[i].tensor->to(at::kFloat), bs[i].tensor->to(at::kFloat)))
        << as[i].name;
  }
}

TEST(NetworksTest, NumbersAreTheSameInBothDtypes) {
  const Place wide, narrow{at::kCPU, at::kBFloat16};
  const auto decoder = DecoderConfig(Small(), {.biases = true});
  ExpectSameNumbers(*DrawDecoder(decoder, wide), *DrawDecoder(decoder, narrow));
  for (const char* type : {"bert", "roberta", "distilbert"}) {
    const auto config = EncoderConfig(Small(), type, 0);
    ExpectSameNumbers(*DrawClassifier(config, wide),
                      *DrawClassifier(config, narrow));
  }
  const auto vision = VisionConfig(Small(), 0);
  ExpectSameNumbers(*DrawClassifier(vision, wide),
                    *DrawClassifier(vision, narrow));
}

// One and zero would hide a norm that leaves its weight out.
TEST(NetworksTest, NormsAndBiasesAreNotAsDrawn) {
  const auto config = DecoderConfig(Small(), {.biases = true});
  const auto decoder = DrawDecoder(config, {});
  const auto& layer = decoder->layers()[0];
  EXPECT_GT(layer.input_norm.weight.std().item<double>(), 0.1);
  EXPECT_GT(layer.q.bias.std().item<double>(), 0.05);
}

TEST(NetworksTest, WidthsAreTheJobs) {
  const Sizes s = Small();
  const auto decoder = DrawDecoder(DecoderConfig(s, {}), {});
  EXPECT_EQ(decoder->layers().size(), 2u);
  EXPECT_EQ(decoder->layers()[0].gate.weight.sizes(),
            at::IntArrayRef({s.inner, s.width}));
  EXPECT_EQ(decoder->layers()[0].k.weight.sizes(),
            at::IntArrayRef({s.kv_heads * s.head_dim, s.width}));
}

TEST(NetworksTest, FewNumbersAreDrawn) {
  Sizes wide;
  wide.width = 4096;
  const Sizes few = FewTokens(wide);
  EXPECT_LE(NetworkRows(few) * NetworkLength(few) * few.width, 1 << 15);
  EXPECT_EQ(FewTokens(Small()).width, Small().width);
}

TEST(NetworksTest, PackedTextsHaveSegmentsAndPadding) {
  const TextBatch batch = MakeTexts(Small(), 2, 90, true, at::kCPU);
  const auto& in = batch.inputs;
  int64_t sum = 0;
  for (const int64_t n : in.segment_lengths) sum += n;
  EXPECT_EQ(sum, in.input_ids.numel());
  EXPECT_GE(in.segment_lengths.size(), 6u);
  EXPECT_EQ(in.segment_ids.min().item<int64_t>(), -1);
  EXPECT_EQ(in.position_ids.select(1, 0).abs().max().item<int64_t>(), 0);
  EXPECT_LT(in.position_ids.max().item<int64_t>(), in.input_ids.size(1) / 2);
}

TEST(NetworksTest, LabelsAreTheNextTokens) {
  const TextBatch batch = MakeTexts(Small(), 2, 90, false, at::kCPU);
  const auto& labels = batch.labels;
  EXPECT_EQ(labels.rows.numel() % 64, 0);
  EXPECT_LT(labels.count, labels.rows.numel());
  const at::Tensor rows = labels.rows.narrow(0, 0, labels.count);
  EXPECT_TRUE(
      at::equal(labels.targets.narrow(0, 0, labels.count),
                batch.inputs.input_ids.flatten().index_select(0, rows + 1)));
  EXPECT_EQ(labels.targets[-1].item<int64_t>(), base::kIgnoreIndex);
}

TEST(NetworksTest, LinearsOfTheBlocksAreQuantised) {
  const auto decoder = DrawDecoder(DecoderConfig(Small(), {}), {});
  Quantize(*decoder, {quant::Format::kNf4, true}, at::kCPU);
  for (const model::Linear* linear : decoder->Linears()) {
    EXPECT_EQ(linear->quantized != nullptr, linear->name != "lm_head");
  }
}

TEST(NetworksTest, AdaptersAreNotZero) {
  const auto decoder = DrawDecoder(DecoderConfig(Small(), {}), {});
  const auto adapters = HangAdapters(*decoder, {}, {"lm_head"}, 0, at::kCPU);
  for (const auto& p : adapters->parameters().parameters()) {
    EXPECT_GT(p.value.abs().max().item<double>(), 0) << p.name;
  }
  EXPECT_EQ(GradientsOf(*adapters).size(),
            adapters->parameters().parameters().size());
}

}  // namespace
}  // namespace mpsd::selftest
