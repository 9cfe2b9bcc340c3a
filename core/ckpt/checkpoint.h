// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CKPT_CHECKPOINT_H_
#define MPSD_CORE_CKPT_CHECKPOINT_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ckpt/trainer_state.h"
#include "core/device/device.h"
#include "core/optim/adamw.h"
#include "core/optim/trainable.h"

// A checkpoint is a folder checkpoints/step-N that appears whole:
//   what optim::Trainable::SaveCheckpoint writes: a PEFT folder's files
//   (adapter_config.json, adapter_model.safetensors), or model.safetensors and
//   config.json
//   optimizer.safetensors     Adam moments and step counts, by decay group
//   rng.safetensors           generator states, CPU and device
//   trainer_state.json        TrainerState
namespace mpsd::ckpt {

// Everything a step reads and writes.
struct LiveState {
  optim::Trainable& trainable;
  optim::AdamW& optimizer;
  device::Device& device;
};

struct Saved {
  std::filesystem::path path;
  int64_t bytes = 0;
};

// Writes out_dir/checkpoints/step-N for state.step, fsynced, renamed in place.
absl::StatusOr<Saved> SaveCheckpoint(const std::filesystem::path& out_dir,
                                     const TrainerState& state,
                                     const LiveState& live);

// Restores `live` from a checkpoint folder, bit for bit on the CPU.
// InvalidArgument or NotFound when a part is missing or does not fit.
absl::StatusOr<TrainerState> LoadCheckpoint(const std::filesystem::path& folder,
                                            const LiveState& live);

// The step numbers below out_dir/checkpoints, ascending. Staging leftovers of
// a killed run are no checkpoints.
std::vector<int64_t> ListCheckpoints(const std::filesystem::path& out_dir);

std::filesystem::path CheckpointPath(const std::filesystem::path& out_dir,
                                     int64_t step);

// Removes the oldest checkpoints beyond `limit`, never `keep_step`. Returns the
// folders that are gone.
std::vector<std::filesystem::path> Prune(const std::filesystem::path& out_dir,
                                         int64_t limit, int64_t keep_step);

}  // namespace mpsd::ckpt

#endif  // MPSD_CORE_CKPT_CHECKPOINT_H_
