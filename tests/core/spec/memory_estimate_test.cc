// SPDX-License-Identifier: Apache-2.0
#include "core/spec/memory_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/base/limits.h"
#include "core/spec/job_layers.h"

namespace mpsd::spec {

namespace {

ModelConfig Tiny() {
  ModelConfig c;
  c.model_type = "llama";
  c.vocab_size = 100;
  c.hidden_size = 8;
  c.intermediate_size = 12;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 2;
  c.tie_word_embeddings = true;
  return c;
}

TrainSpec Spec() {
  TrainSpec spec;
  spec.training.per_device_train_batch_size = 2;
  spec.training.max_length = 16;
  return spec;
}

// q [8, 8] and v [8, 4] of two layers with r = 8.
constexpr int64_t kTrainable = 2 * 8 * (8 + 8 + 8 + 4);

TEST(TrainableParameterCount, CountsAdaptersAndSavedModules) {
  TrainSpec spec = Spec();
  EXPECT_EQ(TrainableParameterCount(spec, Tiny()), kTrainable);
  spec.lora.rank_pattern = {{"q_proj", 1}};
  EXPECT_EQ(TrainableParameterCount(spec, Tiny()),
            2 * (1 * (8 + 8) + 8 * (8 + 4)));
  spec = Spec();
  spec.lora.layers_to_transform = {0};
  spec.lora.modules_to_save = {"lm_head"};
  EXPECT_EQ(TrainableParameterCount(spec, Tiny()), kTrainable / 2 + 800);
  spec.lora.target_modules = std::vector<std::string>{"nothing"};
  EXPECT_EQ(TrainableParameterCount(spec, Tiny()), 0);
}

// Llama 2 7B.
ModelConfig SevenBillion() {
  ModelConfig c;
  c.model_type = "llama";
  c.vocab_size = 32000;
  c.hidden_size = 4096;
  c.intermediate_size = 11008;
  c.num_hidden_layers = 32;
  c.num_attention_heads = c.num_key_value_heads = 32;
  c.head_dim = 128;
  return c;
}

// From some length on a block has 2^27 scores, and its masks are as long as the
// rows: nothing grows with the square.
TEST(EstimateMemory, BlocksDoNotGrowWithTheSquareOfTheLength) {
  TrainSpec spec;
  spec.training.bf16 = true;
  spec.training.per_device_train_batch_size = 1;
  double before = 0, growth = 0;
  for (const int64_t length : {4096, 8192, 16384, 32768}) {
    spec.training.max_length = length;
    const auto now =
        static_cast<double>(EstimateMemory(spec, SevenBillion()).total_bytes);
    if (growth > 0) {
      EXPECT_LE(now - before, 2.05 * growth) << length;
    }
    if (before > 0) growth = now - before;
    before = now;
  }
}

// Of rows no longer than training's; without the activations of all layers.
TEST(EstimateMemory, TheLargerOfTrainingAndEvaluationCounts) {
  TrainSpec spec = Spec();
  spec.dataset.eval = {"eval.jsonl"};
  spec.training.per_device_eval_batch_size = 64;
  const MemoryEstimate on_mps = EstimateMemory(spec, Tiny());
  const int64_t values = 4 * 8 + 2 * 8 + 2 * 4 + 3 * 12;
  const int64_t attention = 2 * 8 + 2 * 4;
  EXPECT_EQ(on_mps.evaluation_bytes,
            std::max<int64_t>(32 * (values + attention) * 4,
                              32 * 100 * 8 + 32 * 3 * 8 * 4));
  const int64_t without = on_mps.total_bytes;
  spec.device = DeviceChoice::kCpu;
  const MemoryEstimate e = EstimateMemory(spec, Tiny());
  EXPECT_EQ(
      e.evaluation_bytes,
      std::max<int64_t>(1024 * values * 4, 1024 * 100 * 8 + 1024 * 3 * 8 * 4));
  // The CPU keeps the logits of a step.
  EXPECT_EQ(e.logits_bytes, 32 * 100 * 4);
  EXPECT_EQ(e.total_bytes, e.base_weights_bytes + e.trainable_bytes +
                               e.inputs_bytes + e.evaluation_bytes +
                               e.logits_bytes + e.heap_bytes);
  // Of all that is freed between steps and evaluations, except the logits.
  EXPECT_NEAR(static_cast<double>(e.heap_bytes) /
                  static_cast<double>(e.evaluation_bytes),
              2 * e.heap_share, 1e-4);
  EXPECT_EQ(on_mps.heap_bytes, 0);
  // Autograd frees in another order than it allocates.
  spec.gradients = Gradients::kAutograd;
  EXPECT_GT(EstimateMemory(spec, Tiny()).heap_share, e.heap_share);
  EXPECT_GT(e.heap_share, 0.1);
  EXPECT_GT(e.total_bytes, without);
}

// Keys and values of a batch: of up to 1 GiB, or of one prompt.
TEST(EstimateMemory, SamplesCountTheirKeysAndValues) {
  TrainSpec spec;
  spec.training.sample_prompts.assign(16, {std::string(872, 'x')});
  spec.training.sample_max_new_tokens = 24;
  ModelConfig model = SevenBillion();
  model.num_key_value_heads = 4;
  model.max_position_embeddings = 4096;
  const auto bytes = [&] {
    return EstimateMemory(spec, model).evaluation_bytes;
  };
  constexpr int64_t kRow = 2 * 32 * 4 * 128 * (872 + 128 + 24) * 4;
  static_assert(16 * kRow == int64_t{2} << 30);
  EXPECT_GT(bytes(), int64_t{1} << 30);
  spec.training.sample_prompts.resize(2);
  EXPECT_GT(bytes(), 2 * kRow);
  EXPECT_LT(bytes(), int64_t{1} << 30);
  model.num_key_value_heads = 32;
  const int64_t several = bytes();
  spec.training.sample_prompts.resize(1);
  EXPECT_EQ(bytes(), several);
  EXPECT_GT(several, 8 * kRow);
  spec.training.sample_prompts.clear();
  EXPECT_EQ(bytes(), 0);
}

// Tensors of more than 32 MiB do not come from the heap.
TEST(EstimateMemory, TheHeapOfLargeTensorsIsBounded) {
  TrainSpec spec;
  spec.device = DeviceChoice::kCpu;
  spec.training.per_device_train_batch_size = 1;
  const auto of = [&](int64_t length) {
    spec.training.max_length = length;
    return EstimateMemory(spec, SevenBillion());
  };
  // 4096 numbers of 4 bytes a token: 32 MiB at 2048 tokens.
  EXPECT_EQ(of(256).heap_share, of(2048).heap_share);
  EXPECT_LT(of(256).heap_bytes, of(512).heap_bytes);
  EXPECT_NEAR(of(8192).heap_share, of(2048).heap_share / 4, 1e-9);
  EXPECT_LE(of(8192).heap_bytes, int64_t{2} << 30);
  spec.gradients = Gradients::kAutograd;
  const double adapters = of(256).heap_share;
  spec.fine_tune_type = FineTuneType::kFull;
  EXPECT_LT(of(256).heap_share, adapters);
  // Layers that are recomputed have tensors of two lives.
  const double kept = of(256).heap_share;
  spec.training.gradient_checkpointing = true;
  EXPECT_EQ(of(256).heap_share, 2 * kept);
}

// All micro-batches of a step go to the device together, up to a limit; a
// larger micro-batch goes as it is.
TEST(EstimateMemory, AStepsInputsCountUpToTheirLimit) {
  TrainSpec spec = Spec();
  spec.device = DeviceChoice::kCuda;
  EXPECT_EQ(EstimateMemory(spec, Tiny()).inputs_bytes, 32 * 40);
  spec.training.gradient_accumulation_steps = 3;
  EXPECT_EQ(EstimateMemory(spec, Tiny()).inputs_bytes, 3 * 32 * 40);
  spec.training.gradient_accumulation_steps = 1 << 20;
  EXPECT_EQ(EstimateMemory(spec, Tiny()).inputs_bytes, kStepInputBytes);
  spec.training.max_length = 1 << 20;
  EXPECT_EQ(EstimateMemory(spec, Tiny()).inputs_bytes, 2 * (40 << 20));
  spec.device = DeviceChoice::kMps;  // in addition to the host's copy
  EXPECT_EQ(EstimateMemory(spec, Tiny()).inputs_bytes, 4 * (40 << 20));
}

TEST(EstimateMemory, ChunksTheLogitsAndSaturates) {
  TrainSpec spec = Spec();
  spec.training.max_length = 100000;
  EXPECT_EQ(EstimateMemory(spec, Tiny()).logits_bytes, 200000LL * 100 * 10);
  spec.training.max_length = 1 << 20;  // 2^25 logits, in multiples of 64 rows
  EXPECT_EQ(EstimateMemory(spec, Tiny()).logits_bytes, 335488LL * 100 * 10);
  spec.fine_tune_type = FineTuneType::kFull;  // 2^27 logits
  EXPECT_EQ(EstimateMemory(spec, Tiny()).logits_bytes, 1342144LL * 100 * 10);
  spec.fine_tune_type = FineTuneType::kLora;
  spec.gradients = Gradients::kAutograd;
  EXPECT_EQ(EstimateMemory(spec, Tiny()).logits_bytes, 1024 * 100 * 8);
  spec.training.max_length = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(EstimateMemory(spec, Tiny()).total_bytes,
            std::numeric_limits<int64_t>::max());
}

ModelConfig BertBase() {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.model_type = "bert";
  c.vocab_size = 28996;
  c.hidden_size = 768;
  c.intermediate_size = 3072;
  c.num_hidden_layers = c.num_attention_heads = 12;
  c.head_dim = 64;
  c.max_position_embeddings = 512;
  c.encoder.network = c.model_type;
  c.encoder.embedding_size = c.hidden_size;
  c.encoder.type_vocab_size = 2;
  c.encoder.pooler = true;
  c.num_labels = 2;
  return c;
}

TEST(EstimateMemory, AHeadAloneIsSmallAndLengthEndsAtTheModelsPositions) {
  TrainSpec spec;
  spec.task = Task::kSeqCls;
  spec.fine_tune_type = FineTuneType::kHead;
  const ModelConfig bert = BertBase();
  EXPECT_EQ(TrainableParameterCount(spec, bert), 768 * 2 + 2);
  const int64_t head = EstimateMemory(spec, bert).activations_bytes;
  spec.fine_tune_type = FineTuneType::kFull;
  EXPECT_LT(5 * head, EstimateMemory(spec, bert).activations_bytes);
  spec.fine_tune_type = FineTuneType::kLora;
  spec.training.max_length = 512;
  const int64_t at_limit = EstimateMemory(spec, bert).total_bytes;
  spec.training.max_length = 4096;
  EXPECT_EQ(EstimateMemory(spec, bert).total_bytes, at_limit);
}

TEST(EstimateMemory, AModelStoredQuantizedNeedsNoSetting) {
  ModelConfig stored = SevenBillion();
  stored.quantization.emplace().load_in_8bit = true;
  TrainSpec spec;
  const int64_t taken = EstimateMemory(spec, stored).base_weights_bytes;
  spec.quantization_config.load_in_8bit = true;
  EXPECT_EQ(taken, EstimateMemory(spec, SevenBillion()).base_weights_bytes);
}

// The largest network that config.json may describe: every sum has an end.
TEST(EstimateMemory, OfTheLargestConfig) {
  ModelConfig model = Tiny();
  model.num_hidden_layers = limits::kModelLayers;
  model.vocab_size = model.hidden_size = model.intermediate_size =
      limits::kModelSize;
  model.num_attention_heads = model.num_key_value_heads =
      limits::kModelSize / 2;
  model.tie_word_embeddings = false;
  model.qkv_bias = model.o_bias = model.mlp_bias = true;
  for (const FineTuneType type : {FineTuneType::kLora, FineTuneType::kFull}) {
    TrainSpec spec = Spec();
    spec.fine_tune_type = type;
    spec.training.max_length = spec.training.per_device_train_batch_size =
        std::numeric_limits<int64_t>::max();
    const MemoryEstimate e = EstimateMemory(spec, model);
    EXPECT_EQ(e.total_bytes, std::numeric_limits<int64_t>::max());
    for (const int64_t part :
         {e.base_weights_bytes, e.trainable_bytes, e.activations_bytes,
          e.logits_bytes, e.backward_bytes, e.evaluation_bytes}) {
      EXPECT_GE(part, 0);
    }
    EXPECT_GT(TrainableParameterCount(spec, model), 0);
  }
}

// However long the rows and many the heads, but for 32 queries at least.
TEST(QueriesPerBlockTest, ScoresOfABlockStayWithinABound) {
  for (const int64_t heads : {1, 12, 28, 64}) {
    for (int64_t length = 64; length <= 32768; length *= 2) {
      for (const int64_t rows : {1, 3, 8}) {
        for (const bool cached : {false, true}) {
          const int64_t count = QueriesPerBlock(rows, heads, length, cached);
          EXPECT_GE(count, 32);
          EXPECT_LE(count, length);
          if (count > 32) {
            EXPECT_LE(rows * heads * length * count, int64_t{1} << 27)
                << rows << " " << heads << " " << length;
          }
          if (cached) {
            EXPECT_LE(count, 128);
          }
        }
      }
    }
  }
}

}  // namespace

}  // namespace mpsd::spec
