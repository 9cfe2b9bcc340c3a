// SPDX-License-Identifier: Apache-2.0
// The part of Trainer::Run that goes on from a checkpoint.
#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ckpt/checkpoint.h"
#include "core/text/overrides.h"
#include "core/train/trainer.h"

namespace mpsd::train {

absl::Status Trainer::KnowInputs() {
  if (!state_.fingerprint.empty()) return absl::OkStatus();
  if (!model_digests_->done()) observer_.OnStage("hashing model", 0);
  auto digests = model_digests_->Get();
  if (!digests.ok()) return digests.status();
  manifest_.model_sha256 = *std::move(digests);
  for (const auto& [file, digest] : manifest_.model_sha256) {
    // The run does not read other weights in the folder: their digests do not
    // matter.
    const bool read = !file.ends_with(".safetensors") ||
                      std::find(weight_files_.begin(), weight_files_.end(),
                                file) != weight_files_.end();
    if (read) inputs_.model[file] = digest;
  }
  const spec::TrainingSpec& t = spec_.training;
  if (!t.chat_template_path.empty()) {
    auto id =
        text::OverridesId(model_folder_, {t.chat_template_path, t.eos_token});
    if (!id.ok()) return id.status();
    inputs_.model["chat_template_path"] = *std::move(id);
  }
  if (!spec_.adapter.empty()) {
    const std::atomic<bool> never{false};
    auto adapter = HashModel(spec_.adapter,
                             options_.cache_dir / "model-digests.json", never);
    if (!adapter.ok()) return adapter.status();
    constexpr char kWeights[] = "adapter_model.safetensors";
    if (adapter->contains(kWeights)) {
      inputs_.adapter[kWeights] = (*adapter)[kWeights];
    }
  }
  inputs_.train = data_.train->hash();
  if (data_.eval != nullptr) inputs_.eval = data_.eval->hash();
  inputs_.device = device_->name();
  state_.fingerprint = MakeFingerprint(spec_, inputs_);
  return absl::OkStatus();
}

absl::Status Trainer::Resume() {
  base::Check(trainable_ != nullptr && folder_ == nullptr,
              "Resume comes after AttachTrainable and before OpenRunFolder");
  state_.eval_step = -1;
  ckpt::SweepLeftovers(options_.out_dir);
  const std::vector<int64_t> incomplete =
      ckpt::ListIncomplete(options_.out_dir);
  for (const int64_t step : incomplete) SetAside(step, "a file is missing");
  bool damaged = !incomplete.empty();
  std::vector<int64_t> steps = ckpt::ListCheckpoints(options_.out_dir);
  if (!steps.empty()) {
    if (absl::Status s = KnowInputs(); !s.ok()) return s;
  }
  // Tries the newest checkpoint first. A checkpoint that a failing disk has
  // spoilt costs the steps since the one before it, not the run.
  for (; !steps.empty(); steps.pop_back()) {
    absl::Status s = ResumeFrom(steps.back());
    if (!absl::IsInvalidArgument(s) && !absl::IsNotFound(s)) return s;
    SetAside(steps.back(), std::string(s.message()));
    damaged = true;
  }
  if (damaged) {
    observer_.OnWarning("no checkpoint can be read: the run starts over");
  }
  return absl::OkStatus();
}

void Trainer::SetAside(int64_t step, const std::string& why) {
  const auto path = ckpt::CheckpointPath(options_.out_dir, step);
  const auto aside = ckpt::SetAside(options_.out_dir, step);
  if (aside.ok()) gone_.push_back(path);
  observer_.OnWarning(absl::StrCat(
      "the checkpoint ", path.string(), " is damaged (", why, ") and ",
      aside.ok() ? absl::StrCat("now ", aside->filename().string())
                 : absl::StrCat("cannot be renamed (", aside.status().message(),
                                ")")));
}

// FailedPrecondition for a checkpoint of another job. InvalidArgument and
// NotFound for a damaged one; the run is then unchanged.
absl::Status Trainer::ResumeFrom(int64_t step) {
  const auto path = ckpt::CheckpointPath(options_.out_dir, step);
  auto saved = ckpt::ReadTrainerState(path);
  if (!saved.ok()) return saved.status();
  if (saved->step != step) {
    return absl::InvalidArgumentError(
        absl::StrCat("its trainer_state.json is of step ", saved->step));
  }
  if (absl::Status s = CheckSameJob(*saved); !s.ok()) return s;
  auto restored = ckpt::LoadCheckpoint(path, Live());
  if (!restored.ok()) return restored.status();
  const int64_t total_steps = state_.total_steps;
  // The run's own fingerprint stays: a checkpoint of an earlier release may
  // have an older form of it.
  restored->fingerprint = std::move(state_.fingerprint);
  state_ = *std::move(restored);
  saved_step_ = state_.step;
  loader_->Seek({state_.epoch, state_.step_in_epoch});
  std::string stage = absl::StrCat("resuming after step ", state_.step);
  if (state_.total_steps != total_steps) {
    absl::StrAppend(&stage, " (of ", total_steps, " steps, not of ",
                    state_.total_steps, ")");
    // The job's number of steps has changed. Transformers' scheduler saves the
    // rate of the next step, computed from the old number; only later steps
    // follow the new one.
    auto before = optim::Schedule::Create(spec_.training, state_.total_steps);
    if (!before.ok()) return before.status();
    schedule_->Pin(state_.step, before->LearningRate(state_.step));
    state_.total_steps = total_steps;
  }
  observer_.OnStage(stage, 0);
  return absl::OkStatus();
}

absl::Status Trainer::CheckSameJob(const ckpt::TrainerState& saved) const {
  absl::StatusOr<std::string> before = saved.fingerprint;
  if (!before->starts_with("{")) {
    before = EarlierFingerprint(*before, options_.out_dir, state_.fingerprint);
    if (!before.ok()) return before.status();
  }
  const absl::Status s = CheckFingerprint(*before, state_.fingerprint);
  if (!absl::IsFailedPrecondition(s)) return s;
  return absl::FailedPreconditionError(
      absl::StrCat(options_.out_dir.string(), " holds ", s.message(),
                   "; choose another folder, remove it, or set that back"));
}

}  // namespace mpsd::train
