// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/ckpt/checkpoint.h"
#include "core/report/report.h"
#include "core/spec/memory_estimate.h"
#include "core/train/micro_batch.h"
#include "core/train/resume.h"
#include "core/train/stages.h"

namespace mpsd::train {
namespace {

const char* Suffix(const MicroBatch& choice) {
  switch (choice.recompute) {
    case spec::Recompute::kNone:
      return "";
    case spec::Recompute::kSelective:
      return ", with selective checkpointing";
    case spec::Recompute::kFull:
      break;
  }
  return ", with checkpointing";
}

int64_t EstimatedBytes(const Loaded& loaded, const MicroBatch& choice) {
  const data::BatchShapes shapes = loaded.shapes();
  const device::Traits& traits = loaded.device->traits();
  spec::TrainSpec spec = *loaded.spec;
  // The memory of an evaluation does not depend on the choice, unless
  // evaluations are limited to the tokens of a training micro-batch.
  if (!traits.silent_out_of_memory) {
    spec.dataset.eval.clear();
    spec.dataset.validation_split = 0;
    spec.training.sample_prompts.clear();
  }
  spec.training.per_device_train_batch_size = choice.rows;
  spec.training.gradient_accumulation_steps = shapes.step_rows() / choice.rows;
  spec.training.set_recompute(choice.recompute);
  if (!spec.training.packing) {
    spec.training.max_length = shapes.LongestSample(*loaded.data.train);
  }
  // The network's own config, not the file's: the head may turn out not to be
  // tied.
  return spec::EstimateMemory(spec, loaded.network->config(), traits)
      .total_bytes;
}

absl::StatusOr<MicroBatchPlan> TryMicroBatches(const Loaded& loaded,
                                               Stepper& stepper) {
  const data::BatchShapes shapes = loaded.shapes();
  const data::Source& train = *loaded.data.train;
  const auto estimate = [&](const MicroBatch& choice) {
    return EstimatedBytes(loaded, choice);
  };
  MicroBatchTrials trials(loaded.subject(), stepper, train,
                          shapes.TrainOptions(1), estimate,
                          loaded.context.attempt);
  MicroBatchSearch search;
  search.batch = shapes.step_rows();
  search.max_rows = search.batch;
  if (const auto most = loaded.device->traits().max_sum) {
    search.max_rows = *most / (shapes.LongestRow(train) * train.sequences());
  }
  search.limit_bytes = trials.limit_bytes();
  search.resident_bytes = trials.resident_bytes();
  search.demanded = loaded.spec->training.recompute();
  search.knows_selective = stepper.gradient_path() == kExplicitStep;
  search.estimate = estimate;
  return FindMicroBatch(search, [&](const MicroBatch& choice) {
    loaded.observer.OnStage(
        absl::StrCat("trying micro-batches of ", choice.rows, Suffix(choice)),
        0);
    return trials.Measure(choice, search.batch);
  });
}

// A resumed run keeps its first attempt's choice: another split would round its
// sums differently.
absl::StatusOr<MicroBatchPlan> FindPlan(const Loaded& loaded, Stepper& stepper,
                                        int64_t rows) {
  const RunContext& context = loaded.context;
  if (!ckpt::ListCheckpoints(context.out_dir).empty()) {
    if (const auto choice = ReadChoiceOfRun(context.out_dir, rows)) {
      return MicroBatchPlan{*choice, "resumed", {}};
    }
  }
  return TryMicroBatches(loaded, stepper);
}

// For a job with auto_find_batch_size: decides how many rows are computed at a
// time, and sets the network's recomputation.
absl::StatusOr<MicroBatchPlan> ChooseMicroBatch(const Loaded& loaded,
                                                Stepper& stepper) {
  const int64_t rows = loaded.shapes().step_rows();
  ASSIGN_OR_RETURN(auto plan, FindPlan(loaded, stepper, rows));
  model::RunOptions options = loaded.network->options();
  options.recompute = plan.chosen.recompute;
  loaded.network->set_options(options);
  loaded.observer.OnStage(
      absl::StrFormat("micro-batches of %d of %d rows%s (%s)", plan.chosen.rows,
                      rows, Suffix(plan.chosen), plan.from),
      1);
  return plan;
}

// What run.json says of a run before its next step.
Manifest ManifestOf(const Loaded& loaded, const Stepper& stepper,
                    const StartingPoint& start) {
  const RunContext& context = loaded.context;
  Manifest m;
  m.started_at = loaded.pipeline->started_at();
  m.mpsd_version = context.mpsd_version;
  m.torch_version = context.torch_version;
  m.device = loaded.device->name();
  m.device_description = loaded.device->description();
  m.environment = context.environment;
  m.gradients = stepper.gradient_path();
  m.spec = *loaded.spec;
  m.model_folder = loaded.model_folder;
  m.model_sha256 = start.identity.model_sha256;
  m.train_sha256 = loaded.data.train->hash();
  m.train_stats = loaded.data.train->stats();
  if (loaded.data.eval != nullptr) {
    m.eval_sha256 = loaded.data.eval->hash();
    m.eval_stats = loaded.data.eval->stats();
  }
  if (const data::ClassLabels* class_labels = loaded.pipeline->class_labels();
      class_labels != nullptr) {
    m.label_names = class_labels->names;
    m.problem_type = std::string(spec::ToString(class_labels->problem));
  }
  m.fresh_modules = loaded.network->fresh_modules();
  m.load_report = loaded.network->load_report();
  m.trainable_parameters = loaded.trainable->parameters().element_count();
  if (m.spec.task != spec::Task::kImageCls) {
    m.max_length = m.spec.training.max_length;
  }
  if (m.spec.task == spec::Task::kSeqCls) {
    m.max_length =
        std::min(m.max_length, loaded.network->config().max_row_tokens());
  }
  return m;
}

absl::StatusOr<std::unique_ptr<RunFolder>> OpenFolder(
    const Loaded& loaded, const ckpt::TrainerState& state) {
  ASSIGN_OR_RETURN(auto folder, RunFolder::Open(loaded.context.out_dir,
                                                state.step, state.eval_step));
  if (const absl::Status& s = folder->curves_status(); !s.ok()) {
    loaded.observer.OnWarning(
        absl::StrCat("TensorBoard's curves are not written: ", s.message()));
  }
  return folder;
}

}  // namespace

absl::StatusOr<Prepared> Prepare(Loaded loaded) {
  const spec::TrainingSpec& t = loaded.spec->training;
  const data::BatchShapes shapes = loaded.shapes();
  const data::Source& train = *loaded.data.train;
  auto optimizer =
      std::make_unique<optim::AdamW>(loaded.trainable->parameters(), t);
  auto stepper =
      std::make_unique<Stepper>(loaded.subject(), *optimizer, t.max_grad_norm);
  loaded.device->BeginSteps();
  int64_t rows = t.per_device_train_batch_size;
  std::optional<MicroBatchPlan> plan;
  if (t.auto_find_batch_size) {
    ASSIGN_OR_RETURN(auto chosen, ChooseMicroBatch(loaded, *stepper));
    rows = chosen.chosen.rows;
    plan = std::move(chosen);
  }
  std::optional<data::EvalLoader> evals;
  if (const data::Source* eval = loaded.data.eval.get(); eval != nullptr) {
    evals.emplace(shapes.EvalBatches(*eval, train, rows));
  }
  auto loader =
      std::make_unique<data::Prefetcher>(train, shapes.TrainOptions(rows));
  const int64_t steps = shapes.TotalSteps(loader->steps_per_epoch());
  ASSIGN_OR_RETURN(auto schedule, optim::Schedule::Create(t, steps));
  ASSIGN_OR_RETURN(auto start,
                   Resume(loaded, steps, *optimizer, *loader, schedule));
  const std::filesystem::path& out_dir = loaded.context.out_dir;
  const int64_t step = start.state.step;
  ASSIGN_OR_RETURN(auto folder, OpenFolder(loaded, start.state));
  Manifest manifest = ManifestOf(loaded, *stepper, start);
  manifest.micro_batch = std::move(plan);
  EarlierAttempts earlier = ReadEarlierAttempts(out_dir, step);
  manifest.resumed_at_steps = std::move(earlier.resumed_at_steps);
  manifest.attention = std::move(earlier.attention);
  Prepared prepared{std::move(loaded),
                    std::move(optimizer),
                    std::move(stepper),
                    rows,
                    std::move(loader),
                    std::move(evals),
                    std::move(schedule),
                    std::move(start.state),
                    step,
                    /*superseded_best=*/0,
                    std::move(start.gone),
                    std::move(folder),
                    std::move(manifest),
                    std::move(earlier.cpu_fallback_ops),
                    {}};
  RETURN_IF_ERROR(prepared.UpdateManifest("RUNNING"));
  return prepared;
}

absl::StatusOr<EvalResult> Prepared::EvaluateWeights() const {
  base::Check(eval_loader.has_value(), "there are data to evaluate on");
  Observer& observer = loaded.observer;
  return Evaluate(loaded.subject(), *eval_loader, [&](double fraction) {
    observer.OnStage(report::kStageEvaluating, fraction);
    return observer.stop_request() == StopRequest::kNone;
  });
}

bool Prepared::SampleDue(bool at_end) const {
  const spec::TrainingSpec& t = loaded.spec->training;
  return !t.sample_prompts.empty() && folder->sampled_step() < state.step &&
         (at_end || state.step == 0 ||
          (t.sample_steps > 0 && state.step % t.sample_steps == 0));
}

absl::Status Prepared::Sample() {
  Observer& observer = loaded.observer;
  const absl::Duration start = base::Clock::Real().Monotonic();
  loaded.trainable->set_training(false);
  loaded.network->set_training(false);
  ASSIGN_OR_RETURN(auto completions,
                   loaded.pipeline->AnswerSamplePrompts(
                       *loaded.device, [&observer](double fraction) {
                         observer.OnStage(report::kStageEvaluating, fraction);
                         return observer.stop_request() == StopRequest::kNone;
                       }));
  const report::Sampled sampled{
      state.step, std::move(completions),
      absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start)};
  observer.OnSample(sampled);
  return folder->Append(sampled);
}

std::map<std::string, int64_t> Prepared::Fallbacks() const {
  std::map<std::string, int64_t> all = earlier_fallbacks;
  const device::WarningCapture* warnings = loaded.context.warnings;
  if (warnings == nullptr) return all;
  for (const auto& [op, count] : warnings->cpu_fallback_ops()) {
    all[op] += count;
  }
  return all;
}

absl::Status Prepared::UpdateManifest(const std::string& run_state) {
  Manifest& m = manifest;
  m.state = run_state;
  m.progress = state;
  m.memory = memory.summary();
  m.cpu_fallback_ops = Fallbacks();
  m.warnings = loaded.observer.warnings();
  m.attention.Add({stepper->attention(),
                   loaded.network->attention_ran(/*training=*/false)});
  return WriteManifest(loaded.context.out_dir, m);
}

}  // namespace mpsd::train
