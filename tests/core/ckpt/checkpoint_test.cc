// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lora/lora.h"
#include "tests/core/golden_model.h"

namespace mpsd::ckpt {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing_support::FreshFolder;
using testing_support::LoadGolden;

// A run's moving parts over a golden model.
class TinyRun {
 public:
  explicit TinyRun(int64_t r = 4) {
    at::manual_seed(9);
    lora_.r = r;
    lora_.target_modules = std::vector<std::string>{"q_proj", "up_proj"};
    adapter_ = *lora::Adapter::Attach(*model_, lora_, at::kCPU, {"base"});
    optimizer_ = std::make_unique<optim::AdamW>(adapter_->parameters(),
                                                spec::TrainingSpec{});
  }
  void Step() {
    for (const auto& group : adapter_->parameters().groups()) {
      at::Tensor gradients = group.gradients;
      gradients.normal_();
    }
    optimizer_->Step(1e-2);
  }
  LiveState Live() { return {*adapter_, *optimizer_, *device_}; }
  at::Tensor Values() {
    return adapter_->parameters().groups()[0].values.clone();
  }
  absl::StatusOr<Saved> Save(const fs::path& out, int64_t step) {
    TrainerState state;
    state.step = step;
    return SaveCheckpoint(out, state, Live());
  }
  std::unique_ptr<model::Decoder> model_ = LoadGolden("llama2");
  std::unique_ptr<device::Device> device_ = *device::OpenCpu();
  spec::LoraSpec lora_;
  std::unique_ptr<lora::Adapter> adapter_;
  std::unique_ptr<optim::AdamW> optimizer_;
};

TEST(CheckpointTest, ARestoredRunGoesOnBitForBit) {
  const fs::path out = FreshFolder("checkpoint_resume");
  TinyRun run;
  for (int i = 0; i < 3; ++i) run.Step();
  auto saved = run.Save(out, 3);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->path, CheckpointPath(out, 3));
  EXPECT_GT(saved->bytes, 0);
  for (int i = 0; i < 3; ++i) run.Step();

  TinyRun other;
  other.Step();
  auto state = LoadCheckpoint(saved->path, other.Live());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 3);
  for (int i = 0; i < 3; ++i) other.Step();
  EXPECT_TRUE(at::equal(run.Values(), other.Values()));
}

TEST(CheckpointTest, ACheckpointOfAnotherShapeIsRefused) {
  const fs::path out = FreshFolder("checkpoint_shape");
  ASSERT_TRUE(TinyRun(4).Save(out, 1).ok());
  TinyRun other(2);
  EXPECT_EQ(
      LoadCheckpoint(CheckpointPath(out, 1), other.Live()).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(CheckpointTest, AMissingPartIsNamed) {
  for (const char* part : {"optimizer.safetensors", "rng.safetensors",
                           "trainer_state.json", "adapter_model.safetensors"}) {
    const fs::path out = FreshFolder("checkpoint_part");
    TinyRun run;
    ASSERT_TRUE(run.Save(out, 1).ok());
    fs::remove(CheckpointPath(out, 1) / part);
    const absl::Status status =
        LoadCheckpoint(CheckpointPath(out, 1), run.Live()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << part;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(part));
  }
}

TEST(CheckpointTest, ListsWholeCheckpointsInOrderOfTheirSteps) {
  const fs::path out = FreshFolder("checkpoint_list");
  EXPECT_THAT(ListCheckpoints(out), ElementsAre());
  TinyRun run;
  for (int64_t step : {20, 3, 100}) ASSERT_TRUE(run.Save(out, step).ok());
  fs::create_directories(out / "checkpoints" / ".step-7.123.1.tmp");
  fs::create_directories(out / "checkpoints" / "step-x");
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(3, 20, 100));
}

TEST(CheckpointTest, PruneKeepsTheNewestAndTheOneAskedFor) {
  const fs::path out = FreshFolder("checkpoint_prune");
  TinyRun run;
  for (int64_t step : {1, 2, 3, 4}) ASSERT_TRUE(run.Save(out, step).ok());
  EXPECT_THAT(Prune(out, 4, -1), ElementsAre());
  EXPECT_THAT(Prune(out, 2, 1),
              ElementsAre(CheckpointPath(out, 2), CheckpointPath(out, 3)));
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(1, 4));
  // The newest stays whatever the limit: it is where a restart goes on.
  EXPECT_THAT(Prune(out, 0, -1), ElementsAre(CheckpointPath(out, 1)));
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(4));
}

}  // namespace
}  // namespace mpsd::ckpt
