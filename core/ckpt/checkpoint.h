// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/optim/adamw.h"
#include "core/optim/parameters.h"

// A checkpoint is a folder checkpoints/step-N that appears complete:
//   the files of optim::Trainable::SaveCheckpoint: those of a PEFT folder
//   (adapter_config.json, adapter_model.safetensors, a classifier's
//   labels.json), or model.safetensors and config.json
//   optimizer.safetensors     Adam moments and step counts, by decay group
//   rng.safetensors           generator states, CPU and device
//   trainer_state.json        TrainerState, and "sha256": the digest of each
//                             .safetensors file above
// checkpoints/ may also have step-N.damaged, a checkpoint that could not be
// read, and hidden .step-N…: being written or removed, or left by a kill.
namespace mpsd::ckpt {

inline constexpr char kTrainerStateFile[] = "trainer_state.json";

// The state of a run apart from its tensors: trainer_state.json of a
// checkpoint.
struct TrainerState {
  int64_t step = 0;  // finished optimizer steps
  int64_t total_steps = 0;
  int64_t epoch = 0;  // with step_in_epoch: the position in the data
  int64_t step_in_epoch = 0;
  double loss_sum = 0;      // over all steps
  int64_t tokens_seen = 0;  // without padding
  double seconds = 0;       // training time, in all attempts
  std::optional<double> eval_loss_before;
  std::optional<double> eval_loss;  // of the latest evaluation
  int64_t eval_step = 0;            // step of the latest evaluation
  // The latest evaluation's metrics other than the loss, in the task's order.
  std::vector<std::pair<std::string, double>> eval_metrics;
  std::optional<double> best_metric;  // value of metric_for_best_model
  int64_t best_step = 0;
  int64_t evaluations_without_gain = 0;  // for early stopping
  // Everything that must not change when a run resumes: JSON
  // (core/train/fingerprint.h).
  std::string fingerprint;
  bool operator==(const TrainerState&) const = default;
};

// Written last: it has the digests of the tensor files that `folder` has.
absl::Status WriteTrainerState(const std::filesystem::path& folder,
                               const TrainerState& state);

// NotFound without the file; InvalidArgument for a broken one. Doubles are read
// back bit for bit.
absl::StatusOr<TrainerState> ReadTrainerState(
    const std::filesystem::path& folder);

// Everything that a step reads and writes.
struct LiveState {
  optim::Trainable& trainable;
  optim::AdamW& optimizer;
  device::Device& device;
};

struct Saved {
  std::filesystem::path path;
  int64_t bytes = 0;
};

// Writes out_dir/checkpoints/step-N for state.step into a hidden folder, fsyncs
// the files and renames the folder.
absl::StatusOr<Saved> SaveCheckpoint(const std::filesystem::path& out_dir,
                                     const TrainerState& state,
                                     const LiveState& live);

// InvalidArgument if a tensor file of the checkpoint differs from its digest
// (earlier releases wrote none) or has a number that is not finite. Reads all
// of them, or all but the optimizer's.
absl::Status CheckTensors(const std::filesystem::path& folder,
                          bool with_optimizer = true);

// Restores `live` from a checkpoint folder, bit for bit on the CPU.
// InvalidArgument or NotFound if a part is missing, truncated or does not fit,
// and with CheckTensors' errors: the checkpoint is damaged, and `live` is
// unchanged. After another error (the
// disk fails within a complete file) `live` is undefined.
absl::StatusOr<TrainerState> LoadCheckpoint(const std::filesystem::path& folder,
                                            const LiveState& live);

// The step numbers of the checkpoints below out_dir, in ascending order. A
// folder that lacks one of the files above does not count.
std::vector<int64_t> ListCheckpoints(const std::filesystem::path& out_dir);

// The steps N whose folder step-N lacks a file, in ascending order.
std::vector<int64_t> ListIncomplete(const std::filesystem::path& out_dir);

std::filesystem::path CheckpointPath(const std::filesystem::path& out_dir,
                                     int64_t step);

// The bytes of the files in a checkpoint's folder.
int64_t CheckpointBytes(const std::filesystem::path& folder);

// Removes the checkpoint of `step`, renamed to a hidden name before, so that a
// kill leaves no partial checkpoint under the checkpoint's name. Whether there
// was one that could be renamed.
bool Remove(const std::filesystem::path& out_dir, int64_t step);

// Removes the oldest checkpoints beyond `limit`, but never those of the steps
// `written` (just saved) and `best` (0: none). Returns the folders removed.
std::vector<std::filesystem::path> Prune(const std::filesystem::path& out_dir,
                                         int64_t limit, int64_t written,
                                         int64_t best);

// Renames step-N to step-N.damaged, replacing an earlier one: resuming, the
// limit and saving then ignore it. Returns the new path.
absl::StatusOr<std::filesystem::path> SetAside(
    const std::filesystem::path& out_dir, int64_t step);

// Removes what a killed save or removal left. No other run may be writing
// there.
void SweepLeftovers(const std::filesystem::path& out_dir);

}  // namespace mpsd::ckpt
