// SPDX-License-Identifier: Apache-2.0
// The parts of Trainer::Run that come before the first step.
#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "core/data/dataset.h"
#include "core/device/platform.h"
#include "core/lora/peft_folder.h"
#include "core/spec/targets.h"
#include "core/tensorfile/weights.h"
#include "core/train/trainer.h"

namespace mpsd::train {
namespace {

// Above this many tokens in a GEMM MPS computes wrong gradients
// (pytorch#177116, #195163).
constexpr int64_t kMpsMaxTokens = 32'766;

absl::StatusOr<std::unique_ptr<device::Device>> Open(
    spec::DeviceChoice choice) {
  switch (choice) {
    case spec::DeviceChoice::kMps:
      return device::OpenMps();
    case spec::DeviceChoice::kCuda:
      return device::OpenCuda();
    case spec::DeviceChoice::kCpu:
      return device::OpenCpu();
    case spec::DeviceChoice::kAuto:
      return device::OpenBest();
  }
  return absl::InternalError("an unknown device");
}

// What is trained is what the adapter holds; only dropout is this run's. A
// `lora` that asks for something else is a misunderstanding.
absl::StatusOr<spec::LoraSpec> LoraOfAdapter(const spec::TrainSpec& spec,
                                             const spec::ModelConfig& config) {
  auto lora = lora::ReadPeftConfig(spec.adapter);
  if (!lora.ok()) return lora.status();
  lora->lora_dropout = spec.lora.lora_dropout;
  spec::LoraSpec unset;
  unset.lora_dropout = spec.lora.lora_dropout;
  if (spec.lora == unset) return lora;
  auto asked = spec::MatchTargets(spec.lora, config);
  if (!asked.ok()) return asked.status();
  auto there = spec::MatchTargets(*lora, config);
  if (!there.ok()) return there.status();
  if (*asked != *there || spec.lora.modules_to_save != lora->modules_to_save) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lora: asks for other modules, ranks or scaling than the adapter in ",
        spec.adapter,
        " has; leave lora out (lora_dropout may stay) to train the adapter as "
        "it is, or leave adapter out"));
  }
  return lora;
}

absl::StatusOr<std::unique_ptr<data::Dataset>> LoadFiles(
    const std::vector<std::string>& files, const spec::TrainingSpec& training,
    const text::Tokenizer& tokenizer, const text::ChatTemplate* chat,
    Observer& observer, const char* stage) {
  const data::LoadOptions options{training.max_length,
                                  training.assistant_only_loss,
                                  training.completion_only_loss,
                                  tokenizer.pad_id().value_or(
                                      tokenizer.eos_id().value_or(0))};
  auto loaded = data::LoadDataset(
      files, options, tokenizer, chat,
      [&](double fraction) { observer.OnStage(stage, fraction); });
  if (!loaded.ok()) return loaded.status();
  const data::DatasetStats& stats = loaded->stats();
  observer.OnStage(
      absl::StrCat(stats.rows, " rows, ", stats.tokens, " tokens, ",
                   stats.label_tokens, " of them labels; ",
                   stats.truncated_rows, " rows cut to max_length, ",
                   stats.dropped_rows, " dropped for having no label"),
      1);
  if (stats.prompt_mismatch_rows > 0) {
    observer.OnStage(
        absl::StrCat("warning: in ", stats.prompt_mismatch_rows,
                     " rows the prompt alone is tokenized otherwise than "
                     "before its completion; the model will meet tokens it was "
                     "not trained on"),
        1);
  }
  return std::make_unique<data::Dataset>(*std::move(loaded));
}

}  // namespace

absl::Status Trainer::OpenDevice() {
  auto opened = Open(spec_.device);
  if (!opened.ok()) return opened.status();
  device_ = *std::move(opened);
  device_->Seed(static_cast<uint64_t>(spec_.training.seed));
  const int64_t tokens =
      spec_.training.max_length *
      (spec_.training.packing ? 1 : spec_.training.per_device_train_batch_size);
  if (device_->kind() == device::Kind::kMps && tokens > kMpsMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "training.per_device_train_batch_size times max_length is ", tokens,
        " tokens; MPS computes wrong gradients above ", kMpsMaxTokens,
        ": lower it and raise gradient_accumulation_steps instead"));
  }
  return absl::OkStatus();
}

absl::Status Trainer::ReadModelFolder() {
  auto folder = spec::FindModelFolder(spec_.model);
  if (!folder.ok()) return folder.status();
  model_folder_ = *folder;
  auto config = spec::ReadModelConfig(model_folder_);
  if (!config.ok()) return config.status();
  config_ = *std::move(config);
  if (!spec_.adapter.empty()) {
    auto lora = LoraOfAdapter(spec_, config_);
    if (!lora.ok()) return lora.status();
    spec_.lora = *std::move(lora);
  }
  if (std::holds_alternative<std::monostate>(spec_.lora.target_modules)) {
    spec_.lora.target_modules = spec::DefaultTargetModules(config_.model_type);
  }
  // A wrong target is said before data and weights are read.
  if (auto targets = spec::MatchTargets(spec_.lora, config_); !targets.ok()) {
    return targets.status();
  }
  auto tokenizer = text::Tokenizer::FromFolder(model_folder_);
  if (!tokenizer.ok()) return tokenizer.status();
  tokenizer_ = *std::move(tokenizer);
  if (tokenizer_->has_chat_template()) {
    auto chat = text::ChatTemplate::FromFolder(model_folder_);
    if (!chat.ok()) return chat.status();
    template_ = *std::move(chat);
  }
  return absl::OkStatus();
}

absl::Status Trainer::LoadData() {
  const spec::TrainingSpec& t = spec_.training;
  auto train = LoadFiles(spec_.dataset.train, t, *tokenizer_, template_.get(),
                         observer_, "reading training data");
  if (!train.ok()) return train.status();
  train_data_ = *std::move(train);
  if (!spec_.dataset.eval.empty()) {
    auto eval = LoadFiles(spec_.dataset.eval, t, *tokenizer_, template_.get(),
                          observer_, "reading evaluation data");
    if (!eval.ok()) return eval.status();
    eval_data_ = *std::move(eval);
    eval_loader_ = std::make_unique<data::EvalLoader>(
        *eval_data_, t.per_device_eval_batch_size);
  }
  data::LoaderOptions options;
  options.batch_size = t.per_device_train_batch_size;
  options.gradient_accumulation_steps = t.gradient_accumulation_steps;
  options.max_length = t.max_length;
  options.packing = t.packing;
  options.seed = static_cast<uint64_t>(t.seed);
  options.shuffle = true;
  loader_ = std::make_unique<data::Loader>(*train_data_, options);
  state_.total_steps =
      t.max_steps > 0 ? t.max_steps
                      : static_cast<int64_t>(std::ceil(
                            t.num_train_epochs * loader_->steps_per_epoch()));
  auto schedule = optim::Schedule::Create(t, state_.total_steps);
  if (!schedule.ok()) return schedule.status();
  schedule_ = *std::move(schedule);
  return absl::OkStatus();
}

absl::Status Trainer::LoadModel() {
  auto weights = tensorfile::Weights::Open(model_folder_);
  if (!weights.ok()) return weights.status();
  const at::ScalarType dtype = spec_.training.bf16 ? at::kBFloat16 : at::kFloat;
  auto loaded =
      model::Decoder::Load(**weights, config_, device_->torch_device(), dtype,
                           [this](double fraction) {
                             observer_.OnStage("loading model", fraction);
                           });
  if (!loaded.ok()) return loaded.status();
  model_ = *std::move(loaded);
  model::RunOptions options;
  options.attention = device_->has_fused_attention_backward()
                          ? model::AttentionKernel::kFused
                          : model::AttentionKernel::kTiled;
  options.activation_checkpointing = spec_.training.gradient_checkpointing;
  model_->set_options(options);
  return absl::OkStatus();
}

absl::Status Trainer::AttachAdapter() {
  auto adapter =
      lora::Adapter::Attach(*model_, spec_.lora, device_->torch_device());
  if (!adapter.ok()) return adapter.status();
  adapter_ = *std::move(adapter);
  if (!spec_.adapter.empty()) {
    absl::Status s =
        lora::LoadPeftWeights(spec_.adapter, adapter_->parameters());
    if (!s.ok()) return s;
  }
  optimizer_ =
      std::make_unique<optim::AdamW>(adapter_->parameters(), spec_.training);
  stepper_ = std::make_unique<Stepper>(*model_, *adapter_, *optimizer_,
                                       *device_, spec_.training.max_grad_norm);
  return absl::OkStatus();
}

ckpt::LiveState Trainer::Live() {
  return {adapter_->parameters(), *optimizer_, *device_};
}

std::string Trainer::Fingerprint() const {
  spec::TrainSpec essence = spec_;
  essence.name.clear();
  essence.dataset = {};  // by content, below
  return base::Sha256Hex(absl::StrCat(
      spec::ToJson(essence), "\n", train_data_->hash(), "\n",
      eval_data_ == nullptr ? "" : eval_data_->hash(), "\n", device_->name()));
}

absl::Status Trainer::Resume() {
  state_.eval_step = -1;
  state_.fingerprint = Fingerprint();
  std::vector<int64_t> steps = ckpt::ListCheckpoints(options_.out_dir);
  absl::Status unreadable;
  // From the newest back: one that a failing disk has spoilt costs the steps
  // since the one before it, not the run.
  for (; !steps.empty(); steps.pop_back()) {
    absl::Status s = ResumeFrom(steps.back());
    if (s.ok() || absl::IsFailedPrecondition(s)) return s;
    observer_.OnStage(absl::StrCat("cannot resume: ", s.message()), 0);
    if (unreadable.ok()) unreadable = s;
  }
  if (unreadable.ok()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("no checkpoint can be read: ", unreadable.message()));
}

// FailedPrecondition for a checkpoint of another job; other errors mean that it
// cannot be read, parameters and optimizer are then undefined.
absl::Status Trainer::ResumeFrom(int64_t step) {
  const auto path = ckpt::CheckpointPath(options_.out_dir, step);
  auto saved = ckpt::ReadTrainerState(path);
  if (!saved.ok()) return saved.status();
  if (saved->fingerprint != state_.fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.out_dir.string(),
        " holds checkpoints of another job (spec, data or device differ); "
        "choose another folder or remove it"));
  }
  auto restored = ckpt::LoadCheckpoint(path, Live());
  if (!restored.ok()) return restored.status();
  state_ = *std::move(restored);
  saved_step_ = state_.step;
  loader_->Seek({state_.epoch, state_.step_in_epoch});
  observer_.OnStage(absl::StrCat("resuming after step ", state_.step), 0);
  return absl::OkStatus();
}

absl::Status Trainer::OpenRunFolder() {
  auto folder = RunFolder::Open(options_.out_dir, state_.step);
  if (!folder.ok()) return folder.status();
  folder_ = *std::move(folder);
  Manifest& m = manifest_;
  observer_.OnStage("hashing model", 0);
  auto digests =
      HashModel(model_folder_, options_.cache_dir / "model-digests.json");
  if (!digests.ok()) return digests.status();
  m.model_sha256 = *std::move(digests);
  m.mpsd_version = options_.mpsd_version;
  m.torch_version = options_.torch_version;
  m.operating_system = device::OperatingSystem();
  m.processor = device::ProcessorName();
  m.device = device_->name();
  m.device_description = device_->description();
  m.attention = device_->has_fused_attention_backward() ? "fused" : "tiled";
  m.dtype = spec_.training.bf16 ? "bfloat16" : "float32";
  m.spec = spec_;
  m.model_folder = model_folder_;
  m.train_sha256 = train_data_->hash();
  m.train_stats = train_data_->stats();
  if (eval_data_ != nullptr) {
    m.eval_sha256 = eval_data_->hash();
    m.eval_stats = eval_data_->stats();
  }
  m.trainable_parameters = adapter_->parameters().element_count();
  m.total_steps = state_.total_steps;
  m.resumed_at_steps = ReadResumedSteps(options_.out_dir);
  if (state_.step > 0) m.resumed_at_steps.push_back(state_.step);
  return UpdateManifest("RUNNING");
}

absl::Status Trainer::UpdateManifest(const std::string& state) {
  Manifest& m = manifest_;
  m.state = state;
  m.steps = state_.step;
  if (state_.step > 0) m.train_loss = state_.loss_sum / state_.step;
  m.eval_loss_before = state_.eval_loss_before;
  if (state_.eval_step > 0) m.eval_loss_after = state_.eval_loss;
  m.tokens = state_.tokens_seen;
  m.seconds = state_.seconds;
  return WriteManifest(options_.out_dir, m);
}

}  // namespace mpsd::train
