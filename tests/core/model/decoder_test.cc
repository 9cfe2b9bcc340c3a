// SPDX-License-Identifier: Apache-2.0
// Structure and options; the numbers are held against Transformers in
// tests/core/parity.
#include "core/model/decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/core/golden_model.h"

namespace mpsd::model {
namespace {

using testing_support::Golden;
using testing_support::LoadGolden;

DecoderInputs Inputs(int64_t rows, int64_t length, int64_t vocab) {
  at::manual_seed(8);
  return {at::randint(vocab, {rows, length}, at::kLong),
          at::arange(length).unsqueeze(0).repeat({rows, 1}),
          {},
          {}};
}

TEST(DecoderTest, AFutureTokenChangesNothingBeforeIt) {
  auto model = LoadGolden("llama3");
  at::NoGradGuard no_grad;
  DecoderInputs inputs = Inputs(1, 12, model->config().vocab_size);
  const at::Tensor before = model->Logits(inputs);
  inputs.input_ids[0][8] =
      (inputs.input_ids[0][8].item<int64_t>() + 1) % model->config().vocab_size;
  const at::Tensor after = model->Logits(inputs);
  EXPECT_TRUE(at::allclose(before.narrow(1, 0, 8), after.narrow(1, 0, 8)));
  EXPECT_FALSE(at::allclose(before.select(1, 8), after.select(1, 8)));
}

TEST(DecoderTest, PackedSegmentsDoNotSeeEachOther) {
  auto model = LoadGolden("qwen3");
  at::NoGradGuard no_grad;
  const DecoderInputs alone = Inputs(1, 5, model->config().vocab_size);
  const DecoderInputs other = Inputs(1, 7, model->config().vocab_size);
  DecoderInputs packed;
  packed.input_ids = at::cat({other.input_ids, alone.input_ids}, 1);
  packed.position_ids = at::cat({other.position_ids, alone.position_ids}, 1);
  packed.segment_ids =
      at::cat({at::zeros({1, 7}, at::kLong), at::ones({1, 5}, at::kLong)}, 1);
  for (const auto kernel : {attention::AttentionKernel::kFused,
                            attention::AttentionKernel::kTiled}) {
    model->set_options({kernel});
    EXPECT_TRUE(at::allclose(model->Logits(packed).narrow(1, 7, 5),
                             model->Logits(alone), 1e-4, 1e-5));
  }
}

TEST(DecoderTest, NamesAreThoseOfTheCheckpoint) {
  auto model = LoadGolden("llama2");
  auto weights = *tensorfile::Weights::Open(Golden("llama2", "model"));
  std::set<std::string> names;
  for (const auto& weight : model->NamedWeights()) names.insert(weight.name);
  for (const std::string& name : weights->names()) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(names.size(), weights->names().size());
  const auto linears = model->Linears();
  EXPECT_EQ(linears.front()->name, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(linears.back()->name, "lm_head");
}

TEST(DecoderTest, ATiedHeadIsTheEmbeddingItself) {
  auto tied = LoadGolden("llama3");
  EXPECT_TRUE(tied->head().weight.is_same(*tied->NamedWeights()[0].tensor));
}

}  // namespace
}  // namespace mpsd::model
