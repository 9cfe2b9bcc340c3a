// SPDX-License-Identifier: Apache-2.0
#include "gtest/gtest.h"
#include "server/jobs/submission.h"

namespace mpsd::jobs {
namespace {

using spec::DeviceChoice;

spec::ModelConfig Tiny() {
  spec::ModelConfig model;
  model.model_type = "llama";
  model.vocab_size = 32;
  model.hidden_size = 16;
  model.intermediate_size = 32;
  model.num_hidden_layers = 2;
  model.num_attention_heads = model.num_key_value_heads = 2;
  model.head_dim = 8;
  model.max_position_embeddings = 64;
  model.sliding_window = {0, 0};
  return model;
}

TEST(MemoryFit, WhereTheTrainerMayChooseTheLeastCounts) {
  spec::TrainSpec spec;
  const int64_t as_asked = LeastMemory(spec, Tiny());
  spec.training.auto_find_batch_size = true;
  EXPECT_LT(LeastMemory(spec, Tiny()), as_asked);
}

TEST(MemoryFit, TheDevicesMemoryCountsWhereItIsKnown) {
  EXPECT_EQ(MemoryFor({100, "mps", 60}, DeviceChoice::kAuto), 60);
  EXPECT_EQ(MemoryFor({100, "mps", 60}, DeviceChoice::kCpu), 100);
  EXPECT_EQ(MemoryFor({100, "", 0}, DeviceChoice::kMps), 100);
  EXPECT_EQ(MemoryFor({100, "cpu", 0}, DeviceChoice::kCuda), 0)
      << "its own memory is not known";
}

}  // namespace
}  // namespace mpsd::jobs
