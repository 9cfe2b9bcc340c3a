// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/ckpt/trainer_state.h"
#include "core/tensorfile/safetensors.h"

namespace mpsd::ckpt {
namespace fs = std::filesystem;
namespace {

constexpr char kOptimizer[] = "optimizer.safetensors";
constexpr char kRandom[] = "rng.safetensors";
constexpr char kPrefix[] = "step-";

// The optimizer's tensors under their file names.
tensorfile::NamedTensors OptimizerTensors(optim::AdamW& optimizer) {
  tensorfile::NamedTensors tensors;
  for (size_t i = 0; i < optimizer.states().size(); ++i) {
    optim::AdamW::State& state = optimizer.states()[i];
    tensors.emplace_back(absl::StrCat("exp_avg.", i), state.first_moment);
    tensors.emplace_back(absl::StrCat("exp_avg_sq.", i), state.second_moment);
    tensors.emplace_back(absl::StrCat("step.", i), state.step);
  }
  return tensors;
}

absl::Status LoadOptimizer(const fs::path& path, optim::AdamW& optimizer) {
  auto file = tensorfile::SafetensorsFile::Open(path);
  if (!file.ok()) return file.status();
  for (auto& [name, target] : OptimizerTensors(optimizer)) {
    auto saved = (*file)->Load(name);
    if (!saved.ok()) return saved.status();
    if (saved->sizes() != target.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path.string(), ": ", name, " does not fit this run's parameters"));
    }
    target.copy_(*saved);
  }
  return absl::OkStatus();
}

absl::Status LoadRandom(const fs::path& path, device::Device& device) {
  auto file = tensorfile::SafetensorsFile::Open(path);
  if (!file.ok()) return file.status();
  auto cpu = (*file)->Load("cpu");
  if (!cpu.ok()) return cpu.status();
  if (device.kind() != device::Kind::kCpu) {
    auto own = (*file)->Load(device.name());
    if (!own.ok()) return own.status();
    device.SetRngState(*own);
  }
  device::SetCpuRngState(*cpu);
  return absl::OkStatus();
}

absl::Status SaveRandom(const fs::path& path, device::Device& device) {
  tensorfile::NamedTensors tensors = {{"cpu", device::CpuRngState()}};
  if (device.kind() != device::Kind::kCpu) {
    tensors.emplace_back(device.name(), device.RngState());
  }
  return tensorfile::WriteSafetensors(path, tensors);
}

int64_t BytesBelow(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (it->is_regular_file()) bytes += it->file_size();
  }
  return bytes;
}

}  // namespace

fs::path CheckpointPath(const fs::path& out_dir, int64_t step) {
  return out_dir / "checkpoints" / absl::StrCat(kPrefix, step);
}

absl::StatusOr<Saved> SaveCheckpoint(const fs::path& out_dir,
                                     const TrainerState& state,
                                     const LiveState& live) {
  const fs::path path = CheckpointPath(out_dir, state.step);
  auto folder = base::StagedFolder::Create(path);
  if (!folder.ok()) return folder.status();
  const fs::path& at = folder->staging();
  absl::Status s = live.trainable.SaveCheckpoint(at);
  if (s.ok()) {
    s = tensorfile::WriteSafetensors(at / kOptimizer,
                                     OptimizerTensors(live.optimizer));
  }
  if (s.ok()) s = SaveRandom(at / kRandom, live.device);
  if (s.ok()) s = WriteTrainerState(at, state);
  if (s.ok()) s = folder->Commit();
  if (!s.ok()) return s;
  return Saved{path, BytesBelow(path)};
}

absl::StatusOr<TrainerState> LoadCheckpoint(const fs::path& folder,
                                            const LiveState& live) {
  auto state = ReadTrainerState(folder);
  if (!state.ok()) return state.status();
  absl::Status s = live.trainable.LoadCheckpoint(folder);
  if (s.ok()) s = LoadOptimizer(folder / kOptimizer, live.optimizer);
  if (s.ok()) s = LoadRandom(folder / kRandom, live.device);
  if (!s.ok()) return s;
  return state;
}

std::vector<int64_t> ListCheckpoints(const fs::path& out_dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(out_dir / "checkpoints", error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    int64_t step = 0;
    if (name.rfind(kPrefix, 0) == 0 &&
        absl::SimpleAtoi(name.substr(sizeof kPrefix - 1), &step)) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<fs::path> Prune(const fs::path& out_dir, int64_t limit,
                            int64_t keep_step) {
  const std::vector<int64_t> steps = ListCheckpoints(out_dir);
  int64_t excess = static_cast<int64_t>(steps.size()) - limit;
  std::vector<fs::path> removed;
  for (size_t i = 0; excess > 0 && i + 1 < steps.size(); ++i) {
    if (steps[i] == keep_step) continue;
    const fs::path path = CheckpointPath(out_dir, steps[i]);
    std::error_code error;
    fs::remove_all(path, error);
    if (!error) removed.push_back(path);
    --excess;
  }
  return removed;
}

}  // namespace mpsd::ckpt
