// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/checkpoint.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "core/base/file.h"
#include "core/lora/lora.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"
#include "tests/core/status_matchers.h"

namespace mpsd::ckpt {
namespace {

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
  LiveState LiveObjects() { return {*adapter_, *optimizer_, *device_}; }
  at::Tensor Values() {
    return adapter_->parameters().groups()[0].values.clone();
  }
  absl::StatusOr<Saved> Save(const fs::path& out, int64_t step) {
    TrainerState state;
    state.step = step;
    return SaveCheckpoint(out, state, LiveObjects());
  }
  std::unique_ptr<model::Decoder> model_ = LoadGolden("llama2");
  std::unique_ptr<device::Device> device_ = *device::OpenCpu();
  spec::LoraSpec lora_;
  std::unique_ptr<lora::Adapter> adapter_;
  std::unique_ptr<optim::AdamW> optimizer_;
};

TEST(CheckpointTest, ARestoredRunContinuesBitForBit) {
  const fs::path out = FreshFolder("checkpoint_resume");
  TinyRun run;
  for (int i = 0; i < 3; ++i) run.Step();
  auto saved = run.Save(out, 3).value();
  EXPECT_EQ(saved.path, CheckpointPath(out, 3));
  EXPECT_GT(saved.bytes, 0);
  for (int i = 0; i < 3; ++i) run.Step();

  TinyRun other;
  other.Step();
  auto state = LoadCheckpoint(saved.path, other.LiveObjects()).value();
  EXPECT_EQ(state.step, 3);
  for (int i = 0; i < 3; ++i) other.Step();
  EXPECT_TRUE(at::equal(run.Values(), other.Values()));
}

TEST(CheckpointTest, ACheckpointOfAnotherShapeIsRefused) {
  const fs::path out = FreshFolder("checkpoint_shape");
  ASSERT_TRUE(TinyRun(4).Save(out, 1).ok());
  TinyRun other(2);
  EXPECT_TRUE(absl::IsInvalidArgument(
      LoadCheckpoint(CheckpointPath(out, 1), other.LiveObjects()).status()));
}

TEST(CheckpointTest, AMissingPartIsNamedAndItsFolderIsNoCheckpoint) {
  TinyRun run;
  for (const char* part : {"optimizer.safetensors", "rng.safetensors",
                           "trainer_state.json", "adapter_model.safetensors"}) {
    const fs::path out = FreshFolder("checkpoint_part");
    for (int64_t step : {1, 2}) ASSERT_TRUE(run.Save(out, step).ok());
    fs::remove(CheckpointPath(out, 2) / part);
    EXPECT_THAT(LoadCheckpoint(CheckpointPath(out, 2), run.LiveObjects()),
                Fails(absl::StatusCode::kNotFound, part))
        << part;
    EXPECT_THAT(ListCheckpoints(out), ElementsAre(1)) << part;
    EXPECT_THAT(ListIncomplete(out), ElementsAre(2)) << part;
  }
}

TEST(CheckpointTest, ListsWholeCheckpointsInOrderOfTheirSteps) {
  const fs::path out = FreshFolder("checkpoint_list");
  EXPECT_THAT(ListCheckpoints(out), ElementsAre());
  TinyRun run;
  for (int64_t step : {20, 3, 100}) ASSERT_TRUE(run.Save(out, step).ok());
  fs::create_directories(out / "checkpoints" / ".step-7.123.1.tmp");
  fs::create_directories(out / "checkpoints" / "step-x");
  fs::create_directories(out / "checkpoints" / "step-5.damaged");
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(3, 20, 100));
}

TEST(CheckpointTest, PruneKeepsTheNewestAndTheOneAskedFor) {
  const fs::path out = FreshFolder("checkpoint_prune");
  TinyRun run;
  for (int64_t step : {1, 2, 3, 4}) ASSERT_TRUE(run.Save(out, step).ok());
  EXPECT_THAT(Prune(out, 4, 4, 0), ElementsAre());
  EXPECT_THAT(Prune(out, 2, 4, 1),
              ElementsAre(CheckpointPath(out, 2), CheckpointPath(out, 3)));
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(1, 4));
  // What was just written stays at any limit: a restart resumes there.
  EXPECT_THAT(Prune(out, 0, 4, 0), ElementsAre(CheckpointPath(out, 1)));
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(4));
}

TEST(CheckpointTest, PruneNeverTakesWhatWasJustWritten) {
  const fs::path out = FreshFolder("checkpoint_prune_newer");
  TinyRun run;
  // The folder of step 20 is of a run that went back to step 5.
  for (int64_t step : {5, 7, 20}) ASSERT_TRUE(run.Save(out, step).ok());
  EXPECT_THAT(Prune(out, 1, /*written=*/7, /*best=*/5),
              ElementsAre(CheckpointPath(out, 20)));
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(5, 7));
}

// A kill may come between any two of the files that a removal takes away: what
// it leaves is hidden, and the next start sweeps it.
TEST(CheckpointTest, ARemovalThatWasKilledLeavesNoPartOfACheckpoint) {
  const fs::path out = FreshFolder("checkpoint_prune_killed");
  TinyRun run;
  for (int64_t step : {1, 2}) ASSERT_TRUE(run.Save(out, step).ok());
  const fs::path checkpoints = out / "checkpoints";
  // Its removal ended after the first file, and a save after its second.
  fs::rename(CheckpointPath(out, 1), checkpoints / ".step-1.removed");
  fs::remove(checkpoints / ".step-1.removed" / "adapter_model.safetensors");
  fs::create_directories(checkpoints / ".step-3.77.1.tmp");
  EXPECT_THAT(ListCheckpoints(out), ElementsAre(2));
  EXPECT_THAT(ListIncomplete(out), ElementsAre());
  // A name that is taken does not stop the next removal.
  ASSERT_TRUE(run.Save(out, 1).ok());
  EXPECT_THAT(Prune(out, 1, 2, 0), ElementsAre(CheckpointPath(out, 1)));
  SweepLeftovers(out);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(left, ElementsAre("step-2"));
}

TEST(CheckpointTest, ADamagedOneIsSetAsideByName) {
  const fs::path out = FreshFolder("checkpoint_aside");
  TinyRun run;
  for (int i = 0; i < 2; ++i) {  // the second takes the place of the first
    ASSERT_TRUE(run.Save(out, 3).ok());
    const auto aside = SetAside(out, 3).value();
    EXPECT_EQ(aside, out / "checkpoints" / "step-3.damaged");
    EXPECT_TRUE(fs::exists(aside / "trainer_state.json"));
    EXPECT_THAT(ListCheckpoints(out), ElementsAre());
    EXPECT_THAT(ListIncomplete(out), ElementsAre());
  }
  EXPECT_TRUE(absl::IsNotFound(SetAside(out, 9).status()));
}

// As the release before digests wrote trainer_state.json.
void DropDigests(const fs::path& at) {
  const fs::path file = at / "trainer_state.json";
  auto state = nlohmann::ordered_json::parse(*base::ReadFile(file));
  ASSERT_GT(state.erase("sha256"), 0u);
  std::ofstream(file) << state;
}

TEST(CheckpointTest, ANumberThatChangedOnDiskIsDamage) {
  for (const char* part : {"adapter_model.safetensors", "optimizer.safetensors",
                           "rng.safetensors"}) {
    const fs::path out = FreshFolder("checkpoint_flipped");
    TinyRun run;
    ASSERT_TRUE(run.Save(out, 1).ok());
    const fs::path folder = CheckpointPath(out, 1);
    std::fstream file(folder / part,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x07');
    file.close();
    EXPECT_THAT(LoadCheckpoint(folder, run.LiveObjects()),
                Fails(absl::StatusCode::kInvalidArgument, part));
    EXPECT_EQ(CheckTensors(folder, /*with_optimizer=*/false).ok(),
              part == std::string("optimizer.safetensors"));
    // Nothing but the digest shows it.
    DropDigests(folder);
    EXPECT_TRUE(LoadCheckpoint(folder, run.LiveObjects()).ok()) << part;
  }
}

// More numbers than are looked at together.
TEST(CheckpointTest, TheLastOfManyNumbersIsCheckedToo) {
  const fs::path folder = FreshFolder("checkpoint_large");
  std::ofstream(folder / "trainer_state.json") << "{}";
  at::Tensor numbers = at::zeros({(int64_t{1} << 24) + 1}, at::kHalf);
  const auto write = [&] {
    return tensorfile::WriteSafetensors(folder / "model.safetensors",
                                        {{"w", numbers}});
  };
  ASSERT_TRUE(write().ok());
  EXPECT_TRUE(CheckTensors(folder).ok());
  numbers[-1] = INFINITY;
  ASSERT_TRUE(write().ok());
  EXPECT_THAT(CheckTensors(folder),
              Fails(absl::StatusCode::kInvalidArgument, "w is not finite"));
}

// If any part is damaged, parameters, moments and generators stay as they
// were: the run may resume from another checkpoint, or start.
TEST(CheckpointTest, ADamagedOneChangesNothing) {
  const auto cut = [](const char* part) {
    return [part](const fs::path& at) { fs::resize_file(at / part, 100); };
  };
  const std::function<void(const fs::path&)> damages[] = {
      cut("adapter_model.safetensors"),
      cut("optimizer.safetensors"),
      cut("rng.safetensors"),
      cut("trainer_state.json"),
      [](const fs::path& at) {  // a state that no generator takes
        ASSERT_TRUE(
            tensorfile::WriteSafetensors(at / "rng.safetensors",
                                         {{"cpu", at::zeros({12}, at::kByte)}})
                .ok());
      },
      [](const fs::path& at) {  // another optimizer's
        ASSERT_TRUE(
            tensorfile::WriteSafetensors(at / "optimizer.safetensors",
                                         {{"exp_avg.0", at::zeros({12})}})
                .ok());
      },
      [](const fs::path& at) {  // moments of its own shapes, but no numbers
        auto file =
            tensorfile::SafetensorsFile::Open(at / "optimizer.safetensors");
        tensorfile::NamedTensors tensors;
        for (const auto& [name, entry] : (*file)->entries()) {
          tensors.emplace_back(name, *(*file)->Load(name));
        }
        tensors[0].second.fill_(std::numeric_limits<float>::quiet_NaN());
        ASSERT_TRUE(
            tensorfile::WriteSafetensors(at / "optimizer.safetensors", tensors)
                .ok());
      },
      [](const fs::path& at) {
        std::ofstream(at / "trainer_state.json") << R"({"step": "two"})";
      }};
  for (const auto& damage : damages) {
    const fs::path out = FreshFolder("checkpoint_damage");
    TinyRun saved;
    saved.Step();
    ASSERT_TRUE(saved.Save(out, 1).ok());
    DropDigests(CheckpointPath(out, 1));
    damage(CheckpointPath(out, 1));
    TinyRun run;
    run.Step();
    run.Step();
    const at::Tensor values = run.Values();
    const at::Tensor moments = run.optimizer_->states()[0].first_moment.clone();
    const at::Tensor random = device::CpuRngState();
    const absl::Status status =
        LoadCheckpoint(CheckpointPath(out, 1), run.LiveObjects()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(at::equal(run.Values(), values)) << status;
    EXPECT_TRUE(at::equal(run.optimizer_->states()[0].first_moment, moments));
    EXPECT_TRUE(at::equal(device::CpuRngState(), random));
  }
}

TEST(TrainerStateTest, DoublesComeBackBitForBit) {
  TrainerState state;
  state.step = 17;
  state.total_steps = 40;
  state.epoch = 1;
  state.step_in_epoch = 3;
  state.loss_sum = 0.1 + 0.2;
  state.tokens_seen = int64_t{1} << 40;
  state.seconds = 1e-17;
  state.eval_loss_before = 1.0 / 3;
  state.best_metric = 2.5e-300;
  state.eval_metrics = {{"f1", 1.0 / 7}, {"accuracy", 0.5}};
  state.best_step = 16;
  state.evaluations_without_gain = 2;
  state.fingerprint = "abc";
  const auto folder = FreshFolder("trainer_state");
  ASSERT_TRUE(WriteTrainerState(folder, state).ok());
  EXPECT_EQ(*ReadTrainerState(folder), state);
  state.eval_metrics = {{"pearson", std::numeric_limits<double>::quiet_NaN()}};
  ASSERT_TRUE(WriteTrainerState(folder, state).ok());
  EXPECT_TRUE(std::isnan(ReadTrainerState(folder)->eval_metrics[0].second));
}

}  // namespace
}  // namespace mpsd::ckpt
