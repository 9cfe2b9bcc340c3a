// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CKPT_TRAINER_STATE_H_
#define MPSD_CORE_CKPT_TRAINER_STATE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

absl::Status WriteTrainerState(const std::filesystem::path& folder,
                               const TrainerState& state);

// NotFound without the file; InvalidArgument for a broken one. Doubles are read
// back bit for bit.
absl::StatusOr<TrainerState> ReadTrainerState(
    const std::filesystem::path& folder);

}  // namespace mpsd::ckpt

#endif  // MPSD_CORE_CKPT_TRAINER_STATE_H_
