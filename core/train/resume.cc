// SPDX-License-Identifier: Apache-2.0
#include "core/train/resume.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/text/folder.h"
#include "core/train/run_folder.h"

namespace mpsd::train {
namespace {

void SetAside(const Loaded& loaded, int64_t step, absl::string_view why,
              StartingPoint& start) {
  const std::filesystem::path& out_dir = loaded.context.out_dir;
  const auto path = ckpt::CheckpointPath(out_dir, step);
  const auto aside = ckpt::SetAside(out_dir, step);
  if (aside.ok()) start.gone.push_back(path);
  loaded.observer.OnWarning(absl::StrCat(
      "the checkpoint ", path.string(), " is damaged (", why, ") and ",
      aside.ok() ? absl::StrCat("now ", aside->filename().string())
                 : absl::StrCat("cannot be renamed (", aside.status().message(),
                                ")")));
}

absl::Status CheckSameJob(const ckpt::TrainerState& saved,
                          const std::string& fingerprint,
                          const std::filesystem::path& out_dir) {
  const absl::Status s =
      CheckFingerprint(saved.fingerprint, fingerprint, LabelsOfRun(out_dir));
  if (!absl::IsFailedPrecondition(s)) return s;
  return absl::FailedPreconditionError(
      absl::StrCat(out_dir.string(), " holds ", s.message(),
                   "; choose another folder, remove it, or set that back"));
}

// FailedPrecondition for a checkpoint of another job. InvalidArgument and
// NotFound for a damaged one; the run is then unchanged.
absl::StatusOr<ckpt::TrainerState> RestoreStep(int64_t step,
                                               const Loaded& loaded,
                                               const std::string& fingerprint,
                                               optim::AdamW& optimizer) {
  const auto path = ckpt::CheckpointPath(loaded.context.out_dir, step);
  ASSIGN_OR_RETURN(auto saved, ckpt::ReadTrainerState(path));
  if (saved.step != step) {
    return absl::InvalidArgumentError(
        absl::StrCat("its trainer_state.json is of step ", saved.step));
  }
  RETURN_IF_ERROR(CheckSameJob(saved, fingerprint, loaded.context.out_dir));
  if (HasTokens(fingerprint) && !HasTokens(saved.fingerprint)) {
    loaded.observer.OnWarning(
        absl::StrCat(path.string(),
                     " is a checkpoint of an earlier release: its tokens "
                     "cannot be compared"));
  }
  return ckpt::LoadCheckpoint(path,
                              {*loaded.trainable, optimizer, *loaded.device});
}

}  // namespace

absl::StatusOr<JobIdentity> IdentifyJob(const Loaded& loaded) {
  if (!loaded.digests->done()) loaded.observer.OnStage("hashing model", 0);
  ASSIGN_OR_RETURN(auto digests, loaded.digests->Get());
  ASSIGN_OR_RETURN(const RunInputs inputs, InputsOf(loaded, digests));
  return JobIdentity{std::move(digests), MakeFingerprint(*loaded.spec, inputs)};
}

absl::StatusOr<RunInputs> InputsOf(const Loaded& loaded,
                                   const Digests& digests) {
  const std::vector<std::string>& weights = loaded.weight_files;
  RunInputs inputs;
  for (const auto& [file, digest] : digests) {
    // The run does not read other weights in the folder, so their digests do
    // not matter.
    const bool read =
        !file.ends_with(".safetensors") ||
        std::find(weights.begin(), weights.end(), file) != weights.end();
    if (read) inputs.model[file] = digest;
  }
  const spec::TrainSpec& spec = *loaded.spec;
  const spec::TrainingSpec& t = spec.training;
  if (!t.chat_template_path.empty()) {
    ASSIGN_OR_RETURN(auto id,
                     text::OverridesId(loaded.model_folder,
                                       {t.chat_template_path, t.eos_token}));
    inputs.model["chat_template_path"] = std::move(id);
  }
  if (!spec.adapter.empty()) {
    const std::atomic<bool> never{false};
    ASSIGN_OR_RETURN(
        auto adapter,
        HashModel(spec.adapter, loaded.context.cache_dir / kModelDigestsFile,
                  never));
    constexpr char kWeights[] = "adapter_model.safetensors";
    if (adapter.contains(kWeights)) {
      inputs.adapter[kWeights] = adapter[kWeights];
    }
  }
  inputs.train = loaded.data.train->hash();
  inputs.train_tokens = loaded.data.train->TokenDigest();
  if (loaded.data.eval != nullptr) {
    inputs.eval = loaded.data.eval->hash();
    inputs.eval_tokens = loaded.data.eval->TokenDigest();
  }
  inputs.device = loaded.device->name();
  if (const data::ClassLabels* class_labels = loaded.pipeline->class_labels();
      class_labels != nullptr) {
    inputs.label_names = class_labels->names;
    inputs.problem_type = std::string(spec::ToString(class_labels->problem));
  }
  return inputs;
}

absl::StatusOr<StartingPoint> Resume(const Loaded& loaded, int64_t total_steps,
                                     optim::AdamW& optimizer,
                                     data::Prefetcher& loader,
                                     optim::Schedule& schedule) {
  const std::filesystem::path& out_dir = loaded.context.out_dir;
  StartingPoint start;
  ckpt::SweepLeftovers(out_dir);
  const std::vector<int64_t> incomplete = ckpt::ListIncomplete(out_dir);
  for (const int64_t step : incomplete) {
    SetAside(loaded, step, "a file is missing", start);
  }
  bool damaged = !incomplete.empty();
  std::vector<int64_t> steps = ckpt::ListCheckpoints(out_dir);
  if (!steps.empty()) {
    ASSIGN_OR_RETURN(start.identity, IdentifyJob(loaded));
  }
  ckpt::TrainerState& state = start.state;
  state.eval_step = -1;
  state.total_steps = total_steps;
  for (; !steps.empty(); steps.pop_back()) {
    auto restored = RestoreStep(steps.back(), loaded,
                                start.identity.fingerprint, optimizer);
    const absl::Status& s = restored.status();
    if (restored.ok()) {
      state = *std::move(restored);
      break;
    }
    if (!absl::IsInvalidArgument(s) && !absl::IsNotFound(s)) return s;
    SetAside(loaded, steps.back(), s.message(), start);
    damaged = true;
  }
  // The run's own fingerprint: a checkpoint of an earlier release may have an
  // older form of it.
  state.fingerprint = start.identity.fingerprint;
  if (steps.empty()) {
    if (damaged) {
      loaded.observer.OnWarning(
          "no checkpoint can be read: the run starts over");
    }
    return start;
  }
  loader.Seek({state.epoch, state.step_in_epoch});
  std::string stage = absl::StrCat("resuming after step ", state.step);
  if (state.total_steps != total_steps) {
    absl::StrAppend(&stage, " (of ", total_steps, " steps, not of ",
                    state.total_steps, ")");
    // The job's number of steps has changed. Transformers' scheduler saves the
    // rate of the next step, computed from the old number; only later steps
    // follow the new one.
    ASSIGN_OR_RETURN(auto before, optim::Schedule::Create(loaded.spec->training,
                                                          state.total_steps));
    schedule.Pin(state.step, before.LearningRate(state.step));
    state.total_steps = total_steps;
  }
  loaded.observer.OnStage(stage, 0);
  return start;
}

}  // namespace mpsd::train
