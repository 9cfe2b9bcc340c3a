// SPDX-License-Identifier: Apache-2.0
#include "core/study/step_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/clock.h"
#include "core/report/stage_names.h"
#include "core/study/step_samples.h"

namespace mpsd::study {
namespace {

void TurnOffDropout(train::Opened& opened) {
  opened.spec->lora.lora_dropout = 0;
  spec::EncoderConfig& config = opened.config.encoder;
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  config.classifier_dropout = 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepRun>> StepRun::Open(
    spec::TrainSpec spec, const train::RunContext& context,
    train::Observer& observer, const Options& options) {
  spec.device = options.device;
  // A device would choose micro-batches of its own. The gradient is the same.
  spec.training.padding_free =
      spec.training.padding_free.value_or(spec.training.auto_find_batch_size);
  spec.training.auto_find_batch_size = false;
  if (options.max_eval_samples && spec.dataset.evaluates()) {
    auto& most = spec.dataset.max_eval_samples;
    most = std::min(most.value_or(*options.max_eval_samples),
                    *options.max_eval_samples);
  }
  auto opened = train::Open(std::move(spec), context, observer);
  if (!opened.ok()) return opened.status();
  if (!options.dropout) TurnOffDropout(*opened);
  auto loaded = train::Load(*std::move(opened));
  if (!loaded.ok()) return loaded.status();
  loaded->device->BeginSteps();
  const spec::TrainingSpec& training = loaded->spec->training;
  const data::LoaderOptions batches =
      loaded->shapes().TrainOptions(training.per_device_train_batch_size);
  std::unique_ptr<StepRun> run(new StepRun(*std::move(loaded), batches));
  auto schedule =
      optim::Schedule::Create(run->loaded_.spec->training, run->total_steps_);
  if (!schedule.ok()) return schedule.status();
  run->schedule_ = *std::move(schedule);
  return run;
}

StepRun::StepRun(train::Loaded loaded, data::LoaderOptions options)
    : loaded_(std::move(loaded)),
      optimizer_(loaded_.trainable->parameters(), loaded_.spec->training),
      stepper_(loaded_.subject(), optimizer_,
               loaded_.spec->training.max_grad_norm),
      gradient_path_(stepper_.gradient_path()),
      loader_(*loaded_.data.train, options),
      total_steps_(loaded_.shapes().TotalSteps(loader_.steps_per_epoch())) {}

absl::StatusOr<StepRun::Step> StepRun::Next() {
  train::Observer& observer = loaded_.observer;
  const auto go_on = [&] {
    return observer.stop_request() == train::StopRequest::kNone;
  };
  if (!go_on()) return absl::CancelledError("stopped");
  const absl::Duration start = base::Clock::Real().Monotonic();
  auto batches = loader_.NextStep();
  if (!batches.ok()) return batches.status();
  Step step;
  step.learning_rate = schedule_->LearningRate(step_);
  auto result = stepper_.Run(*batches, step.learning_rate, go_on);
  if (!result.ok()) return result.status();
  step.result = *result;
  step.seconds = absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start);
  for (const data::Batch& batch : *batches) {
    step.tokens += batch.tokens;
    step.label_tokens += batch.label_tokens;
  }
  step.samples = DigestOfSamples(*batches);
  ++step_;
  return step;
}

std::string StepRun::metric() const {
  return loaded_.data.eval == nullptr ? "" : loaded_.best.metric();
}

absl::StatusOr<std::optional<double>> StepRun::Evaluate(
    const std::string& metric) {
  const data::Source* eval = loaded_.data.eval.get();
  if (eval == nullptr) return std::nullopt;
  train::Observer& observer = loaded_.observer;
  const data::EvalLoader batches = loaded_.shapes().EvalBatches(
      *eval, *loaded_.data.train,
      loaded_.spec->training.per_device_train_batch_size);
  auto result =
      train::Evaluate(loaded_.subject(), batches, [&](double fraction) {
        observer.OnStage(report::kStageEvaluating, fraction);
        return observer.stop_request() == train::StopRequest::kNone;
      });
  if (!result.ok()) return result.status();
  const std::string name = metric.empty() ? loaded_.best.metric() : metric;
  if (name == "loss") return result->loss;
  for (const auto& [known, value] : result->metrics) {
    // A correlation of constants is no number.
    if (known == name && std::isfinite(value)) return value;
  }
  return std::nullopt;
}

bool StepRun::has_dropout() const {
  const spec::EncoderConfig& config = loaded_.config.encoder;
  return loaded_.spec->lora.lora_dropout.value_or(0) > 0 ||
         config.hidden_dropout_prob > 0 ||
         config.attention_probs_dropout_prob > 0 ||
         config.classifier_dropout > 0;
}

}  // namespace mpsd::study
