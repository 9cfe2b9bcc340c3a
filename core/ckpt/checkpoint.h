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
// Beside it may lie step-N.damaged, a checkpoint that could not be read, and
// hidden folders .step-N…: being written, being removed, or left by a kill.
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
// InvalidArgument or NotFound when a part is missing, cut or does not fit: the
// checkpoint is damaged, and `live` is as it was. After another error (the disk
// fails within a file that is whole) `live` is undefined.
absl::StatusOr<TrainerState> LoadCheckpoint(const std::filesystem::path& folder,
                                            const LiveState& live);

// The step numbers of the checkpoints below out_dir, ascending. A folder that
// lacks one of the files above is none.
std::vector<int64_t> ListCheckpoints(const std::filesystem::path& out_dir);

// The steps N whose folder step-N lacks a file, ascending.
std::vector<int64_t> ListIncomplete(const std::filesystem::path& out_dir);

std::filesystem::path CheckpointPath(const std::filesystem::path& out_dir,
                                     int64_t step);

// Removes the oldest checkpoints beyond `limit`, never those of the steps
// `written` (which was just saved) and `best` (0: none). Each is renamed to a
// hidden name before it is removed: a kill leaves no part of a checkpoint under
// its name. Returns the folders that are gone.
std::vector<std::filesystem::path> Prune(const std::filesystem::path& out_dir,
                                         int64_t limit, int64_t written,
                                         int64_t best);

// Renames step-N to step-N.damaged, in place of an earlier one, so that no
// resume, limit or save meets it again. Returns the new path.
absl::StatusOr<std::filesystem::path> SetAside(
    const std::filesystem::path& out_dir, int64_t step);

// Removes what a killed save or removal left. Not while another run writes
// there.
void SweepLeftovers(const std::filesystem::path& out_dir);

}  // namespace mpsd::ckpt

#endif  // MPSD_CORE_CKPT_CHECKPOINT_H_
