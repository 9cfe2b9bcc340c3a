// SPDX-License-Identifier: Apache-2.0
// The parts of Trainer::Run that come before the first step.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/full/full_model.h"
#include "core/full/model_folder.h"
#include "core/host/platform.h"
#include "core/lora/lora.h"
#include "core/lora/peft_folder.h"
#include "core/spec/idle_fields.h"
#include "core/spec/targets.h"
#include "core/tensorfile/weights.h"
#include "core/train/data_reader.h"
#include "core/train/trainer.h"

namespace mpsd::train {
namespace {

// The settings of an adapter that training starts from. The adapter decides
// what is trained; only dropout may be this run's, as with PEFT's
// from_pretrained. A job whose `lora` asks for anything else is refused as a
// misunderstanding.
absl::StatusOr<spec::LoraSpec> LoraOfAdapter(const spec::TrainSpec& spec,
                                             const spec::ModelConfig& config) {
  auto lora = lora::ReadPeftConfig(spec.adapter);
  if (!lora.ok()) return lora.status();
  spec::LoraSpec unset;
  if (const auto& asked = spec.lora.lora_dropout) {
    lora->lora_dropout = unset.lora_dropout = *asked;
  }
  if (spec.lora == unset) return lora;
  auto asked = spec::MatchTargets(spec.lora, config);
  if (!asked.ok()) return asked.status();
  auto there = spec::MatchTargets(*lora, config);
  if (!there.ok()) return there.status();
  const auto saved = [&config](const spec::LoraSpec& l) {
    return spec::EffectiveLora(l, config).modules_to_save;
  };
  if (*asked != *there || saved(spec.lora) != saved(*lora)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lora: asks for other modules, ranks or scaling than the adapter in ",
        spec.adapter,
        " has; leave lora out (lora_dropout may stay) to train the adapter as "
        "it is, or leave adapter out"));
  }
  return lora;
}

// Thrown to abandon the loading of weights, as torch's exceptions are, where
// the data have already failed.
struct DataFailed {};

// The dtype in which the job computes.
at::ScalarType DtypeOf(const spec::TrainSpec& spec) {
  return spec.training.bf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace

absl::Status Trainer::OpenDevice() {
  base::Check(device_ == nullptr, "a run opens its device once");
  auto opened = device::Open(spec_.device);
  if (!opened.ok()) return opened.status();
  device_ = *std::move(opened);
  device_->Seed(static_cast<uint64_t>(spec_.training.seed));
  return absl::OkStatus();
}

absl::Status Trainer::ReadModelFolder() {
  base::Check(device_ != nullptr, "OpenDevice comes before ReadModelFolder");
  auto folder = spec::FindModelFolder(spec_.model);
  if (!folder.ok()) return folder.status();
  model_folder_ = *folder;
  if (absl::Status s = full::CheckCopied(model_folder_); !s.ok()) return s;
  // Hashing starts as soon as the folder is known, and runs beside everything
  // up to the first checkpoint.
  model_digests_ = std::make_unique<ModelDigests>(
      model_folder_, options_.cache_dir / "model-digests.json");
  auto config = spec::ReadModelConfig(model_folder_);
  if (!config.ok()) return config.status();
  config_ = *std::move(config);
  if (absl::Status s = spec::CheckTask(spec_, config_); !s.ok()) return s;
  Warn(spec::IdleWarnings(spec_));
  Warn(spec::ModelWarnings(spec_, config_));
  task_ = Task::Make(spec_, relay_);
  if (!options_.cache_dir.empty()) {
    task_->set_cache_folder(options_.cache_dir / "tokens");
  }
  if (spec_.fine_tune_type != spec::FineTuneType::kLora) {
    return absl::OkStatus();
  }
  // Refuses a wrong target before data and weights are read. MatchTargets needs
  // a head, but the number of labels is not known yet: any number stands for
  // it.
  spec::ModelConfig with_head = config_;
  if (spec_.task != spec::Task::kCausalLm) with_head.num_labels = 2;
  if (!spec_.adapter.empty()) {
    auto lora = LoraOfAdapter(spec_, with_head);
    if (!lora.ok()) return lora.status();
    spec_.lora = *std::move(lora);
  }
  spec_.lora = spec::EffectiveLora(std::move(spec_.lora), with_head);
  absl::Status s = spec::MatchTargets(spec_.lora, with_head).status();
  if (!s.ok() || !spec_.adapter.empty()) return s;
  // Submit refuses such a pattern today. A job that an earlier release queued
  // is trained, with a warning.
  s = spec::CheckPatternKeys(spec_.lora, with_head);
  if (!s.ok()) Warn({std::string(s.message())});
  return absl::OkStatus();
}

void Trainer::Warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) observer_.OnWarning(warning);
}

absl::Status Trainer::LoadDataAndModel() {
  base::Check(task_ != nullptr, "ReadModelFolder comes before the data");
  if (task_->data_change_model()) {
    absl::Status s = Take(task_->LoadData(model_folder_, config_));
    if (!s.ok()) return s;
    s = LoadModel([this](double fraction) {
      observer_.OnStage("loading model", fraction);
    });
    if (!s.ok()) return s;
  } else if (absl::Status s = LoadBoth(); !s.ok()) {
    return s;
  }
  Warn(model::Warnings(network_->load_report()));
  return absl::OkStatus();
}

absl::Status Trainer::LoadBoth() {
  DataReader reader(*task_, relay_, model_folder_, config_);
  std::optional<absl::Status> data;
  absl::Status model;
  std::exception_ptr error;
  try {
    model = LoadModel([&](double fraction) {
      relay_.Tell();
      if (!data && reader.done()) data = Take(reader.Get());
      if (!data) return;
      if (!data->ok()) throw DataFailed();
      observer_.OnStage("loading model", fraction);
    });
  } catch (...) {
    error = std::current_exception();
  }
  if (!data) data = Take(reader.Get());
  if (!data->ok()) return *data;
  if (error) std::rethrow_exception(error);
  if (model.ok()) observer_.OnStage("loading model", 1);
  return model;
}

absl::Status Trainer::Take(absl::StatusOr<TaskData> data) {
  const spec::TrainingSpec& t = spec_.training;
  base::Check(data_.train == nullptr, "a run takes its data once");
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  if (absl::Status s = CheckDeviceLimits(); !s.ok()) return s;
  auto best = BestModel::Create(t, task_->MetricNames());
  if (!best.ok()) return best.status();
  best_ = *std::move(best);
  loader_ = std::make_unique<data::Prefetcher>(
      *data_.train, LoaderOptionsFor(t.per_device_train_batch_size,
                                     t.gradient_accumulation_steps));
  state_.total_steps =
      t.max_steps > 0 ? t.max_steps
                      : static_cast<int64_t>(std::ceil(
                            t.num_train_epochs * loader_->steps_per_epoch()));
  auto schedule = optim::Schedule::Create(t, state_.total_steps);
  if (!schedule.ok()) return schedule.status();
  schedule_ = *std::move(schedule);
  return absl::OkStatus();
}

absl::Status Trainer::LoadModel(const std::function<void(double)>& progress) {
  base::Check(network_ == nullptr, "a run loads its model once");
  std::unique_ptr<tensorfile::Weights> weights;
  if (!spec_.from_scratch) {
    auto opened = tensorfile::Weights::Open(model_folder_);
    if (!opened.ok()) return opened.status();
    weights = *std::move(opened);
    for (const auto& file : weights->files()) {
      weight_files_.push_back(file.filename().string());
    }
  }
  const model::WeightSource source{
      weights.get(), device_->torch_device(), DtypeOf(spec_),
      spec_.classification.ignore_mismatched_sizes, spec_.quantization_config};
  auto loaded = task_->LoadModel(source, config_, progress);
  if (!loaded.ok()) return loaded.status();
  network_ = *std::move(loaded);
  model::RunOptions options;
  options.attention = attention::KernelFor(device_->traits());
  options.recompute = spec_.training.recompute();
  network_->set_options(options);
  return absl::OkStatus();
}

absl::Status Trainer::AttachTrainable() {
  base::Check(network_ != nullptr && data_.train != nullptr,
              "data and model come before what is trained");
  auto attached = spec_.fine_tune_type == spec::FineTuneType::kLora
                      ? AttachAdapter()
                      : AttachWeights();
  if (!attached.ok()) return attached.status();
  trainable_ = *std::move(attached);
  optimizer_ =
      std::make_unique<optim::AdamW>(trainable_->parameters(), spec_.training);
  stepper_ = std::make_unique<Stepper>(trained(), *optimizer_,
                                       spec_.training.max_grad_norm);
  device_->BeginSteps();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<optim::Trainable>> Trainer::AttachAdapter() {
  base::Check(state_.fingerprint.empty(),
              "the adapter completes the spec before its fingerprint is taken");
  auto saved = spec::MatchModulesToSave(spec_.lora, config_);
  if (!saved.ok()) return saved.status();
  // Weights drawn at random must be saved with the adapter: no base model has
  // them.
  for (const std::string& module : network_->fresh_modules()) {
    const bool kept =
        std::any_of(saved->begin(), saved->end(),
                    [&](const spec::Module& m) { return m.name == module; });
    if (!kept) spec_.lora.modules_to_save.push_back(module);
  }
  const char* task_type = spec_.task == spec::Task::kCausalLm ? "CAUSAL_LM"
                          : spec_.task == spec::Task::kSeqCls ? "SEQ_CLS"
                                                              : "";
  const spec::BaseModel base = spec::BaseModelOf(spec_, model_folder_);
  auto adapter =
      lora::Adapter::Attach(*network_, spec_.lora, device_->torch_device(),
                            {base.name, task_type, base.revision});
  if (!adapter.ok()) return adapter.status();
  if (!spec_.adapter.empty()) {
    absl::Status s = (*adapter)->LoadCheckpoint(spec_.adapter);
    if (!s.ok()) return s;
  }
  return std::unique_ptr<optim::Trainable>(*std::move(adapter));
}

absl::StatusOr<std::unique_ptr<optim::Trainable>> Trainer::AttachWeights() {
  full::FullModel::Options options;
  options.head_only = spec_.fine_tune_type == spec::FineTuneType::kHead;
  options.task = spec_.task;
  options.model_folder = model_folder_;
  options.files = task_->ResultFiles();
  if (const data::Labels* labels = task_->labels(); labels != nullptr) {
    options.label_names = labels->names;
    options.problem_type = std::string(spec::ToString(labels->problem));
  }
  auto full = full::FullModel::Attach(*network_, std::move(options),
                                      device_->torch_device());
  if (!full.ok()) return full.status();
  return std::unique_ptr<optim::Trainable>(*std::move(full));
}

ckpt::LiveState Trainer::Live() {
  base::Check(trainable_ != nullptr && optimizer_ != nullptr,
              "AttachTrainable comes before checkpoints");
  return {*trainable_, *optimizer_, *device_};
}

absl::Status Trainer::OpenRunFolder() {
  base::Check(folder_ == nullptr, "a run opens its folder once");
  auto folder =
      RunFolder::Open(options_.out_dir, state_.step, state_.eval_step);
  if (!folder.ok()) return folder.status();
  folder_ = *std::move(folder);
  Manifest& m = manifest_;
  m.mpsd_version = options_.mpsd_version;
  m.torch_version = options_.torch_version;
  m.operating_system = host::OperatingSystem();
  m.processor = host::ProcessorName();
  m.device = device_->name();
  m.device_description = device_->description();
  m.environment = options_.environment;
  m.gradients = stepper_->gradient_path();
  m.dtype = spec_.training.bf16 ? "bfloat16" : "float32";
  m.spec = spec_;
  m.model_folder = model_folder_;
  m.base_model = spec::BaseModelOf(spec_, model_folder_);
  m.train_sha256 = data_.train->hash();
  m.train_stats = data_.train->stats();
  if (data_.eval != nullptr) {
    m.eval_sha256 = data_.eval->hash();
    m.eval_stats = data_.eval->stats();
  }
  if (const data::Labels* labels = task_->labels(); labels != nullptr) {
    m.label_names = labels->names;
    m.problem_type = std::string(spec::ToString(labels->problem));
  }
  m.fresh_modules = network_->fresh_modules();
  m.load_report = network_->load_report();
  m.trainable_parameters = trainable_->parameters().element_count();
  m.total_steps = state_.total_steps;
  m.resumed_at_steps = ReadResumedSteps(options_.out_dir);
  if (state_.step > 0) {
    earlier_fallbacks_ = ReadFallbacks(options_.out_dir);
    m.attention = ReadAttention(options_.out_dir);
  }
  if (state_.step > 0) m.resumed_at_steps.push_back(state_.step);
  return UpdateManifest("RUNNING");
}

std::map<std::string, int64_t> Trainer::Fallbacks() const {
  std::map<std::string, int64_t> all = earlier_fallbacks_;
  if (options_.warnings == nullptr) return all;
  for (const auto& [op, count] : options_.warnings->cpu_fallback_ops()) {
    all[op] += count;
  }
  return all;
}

absl::Status Trainer::UpdateManifest(const std::string& state) {
  base::Check(folder_ != nullptr, "OpenRunFolder comes before run.json");
  Manifest& m = manifest_;
  m.state = state;
  m.steps = state_.step;
  if (state_.step > 0) m.train_loss = state_.loss_sum / state_.step;
  m.eval_loss_before = state_.eval_loss_before;
  if (state_.eval_step > 0) {
    m.eval_loss_after = state_.eval_loss;
    m.eval_metrics = state_.eval_metrics;
    m.best_metric = state_.best_metric;
    m.best_step = state_.best_step;
  }
  m.tokens = state_.tokens_seen;
  m.seconds = state_.seconds;
  m.memory = memory_.summary();
  m.cpu_fallback_ops = Fallbacks();
  m.warnings = observer_.warnings();
  m.attention.Add(
      {stepper_->attention(), network_->attention_ran(/*training=*/false)});
  return WriteManifest(options_.out_dir, m);
}

}  // namespace mpsd::train
