// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/parity.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "core/ckpt/safetensors.h"
#include "core/full/full_model.h"
#include "core/lora/peft_folder.h"
#include "core/optim/adamw.h"
#include "core/optim/schedule.h"
#include "core/spec/model_config.h"
#include "nlohmann/json.hpp"

namespace mpsd::parity {

namespace fs = std::filesystem;
using model::LabelSelection;

absl::StatusOr<Tensors> ReadTensors(const fs::path& path) {
  auto file = tensorfile::SafetensorsFile::Open(path);
  if (!file.ok()) return file.status();
  Tensors tensors;
  for (const auto& [name, entry] : (*file)->entries()) {
    auto tensor = (*file)->Load(name);
    if (!tensor.ok()) return tensor.status();
    tensors[name] = *std::move(tensor);
  }
  return tensors;
}

void Seed(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

absl::StatusOr<Head> ParseHead(const std::string& json) {
  const auto values = nlohmann::json::parse(json, nullptr, false);
  Head head;
  head.num_labels = values.value("num_labels", 0);
  const std::string problem = values.value("problem_type", "");
  for (const auto type :
       {spec::ProblemType::kSingleLabel, spec::ProblemType::kRegression,
        spec::ProblemType::kMultiLabel}) {
    if (spec::ToString(type) == problem) head.problem = type;
  }
  if (head.num_labels < 1 || spec::ToString(head.problem) != problem) {
    return absl::InvalidArgumentError("no head: " + json);
  }
  head.class_weights = values.value("class_weights", std::vector<float>());
  return head;
}

namespace {

absl::Status LoadNetwork(const Subject& subject, Tuned& tuned) {
  auto config = spec::ReadModelConfig(subject.model.string());
  if (!config.ok()) return config.status();
  auto weights = tensorfile::Weights::Open(subject.model);
  if (!weights.ok()) return weights.status();
  const model::WeightSource source{weights->get(), subject.device,
                                   subject.dtype};
  if (subject.head) {
    tuned.head = *subject.head;
    config->num_labels = tuned.head.num_labels;
    auto classifier = model::Classifier::Load(source, *config);
    if (!classifier.ok()) return classifier.status();
    tuned.classifier = classifier->get();
    tuned.model = *std::move(classifier);
  } else {
    auto decoder = model::Decoder::Load(source, *config);
    if (!decoder.ok()) return decoder.status();
    tuned.decoder = decoder->get();
    tuned.model = *std::move(decoder);
  }
  model::RunOptions run;
  run.attention = subject.attention;
  tuned.model->set_options(run);
  return absl::OkStatus();
}

absl::Status AttachTrainable(const Subject& subject, Tuned& tuned) {
  if (subject.adapter.empty()) {
    full::FullModel::Options options;
    options.model_folder = subject.model;
    if (subject.head) options.task = spec::Task::kSeqCls;
    auto full = full::FullModel::Attach(*tuned.model, options, subject.device);
    if (!full.ok()) return full.status();
    tuned.trainable = *std::move(full);
    return absl::OkStatus();
  }
  auto lora = lora::ReadPeftConfig(subject.adapter);
  if (!lora.ok()) return lora.status();
  auto adapter = lora::Adapter::Attach(*tuned.model, *lora, subject.device);
  if (!adapter.ok()) return adapter.status();
  tuned.lora = *std::move(lora);
  tuned.adapter = adapter->get();
  tuned.trainable = *std::move(adapter);
  return lora::LoadPeftWeights(subject.adapter, tuned.trainable->parameters());
}

absl::Status MakeExplicitStep(const Subject& subject, Tuned& tuned) {
  explicit_step::Options options;
  options.traits = *subject.fast;
  options.recompute = subject.recompute;
  options.dtype = subject.dtype;
  auto step = explicit_step::ExplicitStep::Create(
      *tuned.decoder, tuned.trainable->parameters(), options);
  if (!step.ok()) return step.status();
  tuned.fast = *std::move(step);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tuned> Load(const Subject& subject) {
  Tuned tuned;
  tuned.device = subject.device;
  if (absl::Status s = LoadNetwork(subject, tuned); !s.ok()) return s;
  if (absl::Status s = AttachTrainable(subject, tuned); !s.ok()) return s;
  if (subject.fast) {
    if (absl::Status s = MakeExplicitStep(subject, tuned); !s.ok()) return s;
  }
  return tuned;
}

LabelSelection SelectLabels(const at::Tensor& labels,
                            const at::Tensor& segments) {
  const at::Tensor wide = labels.contiguous();
  const int64_t rows = wide.size(0), length = wide.size(1);
  const int64_t* label = wide.const_data_ptr<int64_t>();
  const int64_t* segment =
      segments.defined() ? segments.const_data_ptr<int64_t>() : nullptr;
  std::vector<int64_t> chosen, targets;
  for (int64_t i = 0; i < rows * length; ++i) {
    if (i % length == length - 1) continue;
    if (label[i + 1] == base::kIgnoreIndex) continue;
    if (segment != nullptr && segment[i] != segment[i + 1]) continue;
    chosen.push_back(i);
    targets.push_back(label[i + 1]);
  }
  LabelSelection selection;
  selection.count = static_cast<int64_t>(targets.size());
  while (targets.size() % 64 != 0) {
    chosen.push_back(0);
    targets.push_back(base::kIgnoreIndex);
  }
  selection.rows = at::tensor(chosen, at::kLong);
  selection.targets = at::tensor(targets, at::kLong);
  return selection;
}

namespace {

struct Batch {
  model::DecoderInputs inputs;  // of a language model
  LabelSelection selection;
  model::ClassifierInputs texts;  // or images, of a classifier
  at::Tensor labels;
  double weight = 0;  // what the summed loss is divided by
};

at::Tensor Get(const Tensors& tensors, const std::string& name) {
  auto it = tensors.find(name);
  return it == tensors.end() ? at::Tensor() : it->second;
}

at::Tensor WeightsOf(const Head& head, at::Device device) {
  return head.class_weights.empty() ? at::Tensor()
                                    : at::tensor(head.class_weights).to(device);
}

Batch LanguageBatch(const Tensors& in, at::Device device) {
  Batch batch;
  const at::Tensor ids = in.at("input_ids");
  const at::Tensor segments = Get(in, "sequence_ids");
  const at::Tensor positions = Get(in, "position_ids");
  batch.selection = SelectLabels(in.at("labels"), segments);
  batch.weight = batch.selection.count;
  batch.selection.rows = batch.selection.rows.to(device);
  batch.selection.targets = batch.selection.targets.to(device);
  batch.inputs.input_ids = ids.to(device);
  batch.inputs.position_ids =
      (positions.defined() ? positions : at::arange(ids.size(1)).expand_as(ids))
          .contiguous()
          .to(device);
  if (segments.defined()) {
    batch.inputs.segment_ids = segments.to(device);
    batch.inputs.segment_lengths = attention::SegmentLengths(segments);
  }
  return batch;
}

model::ClassifierInputs ClassInputs(const Tensors& in, at::Device device) {
  model::ClassifierInputs inputs;
  if (in.contains("pixels")) {
    inputs.pixels = in.at("pixels").to(device);
    return inputs;
  }
  const at::Tensor lengths = in.at("attention_mask").sum(1);
  inputs.input_ids = in.at("input_ids").to(device);
  inputs.lengths = lengths.to(device);
  inputs.padded = (lengths < in.at("input_ids").size(1)).any().item<bool>();
  const at::Tensor types = Get(in, "token_type_ids");
  if (types.defined()) inputs.token_type_ids = types.to(device);
  return inputs;
}

Batch ClassBatch(const Head& head, const Tensors& in, at::Device device) {
  Batch batch;
  const at::Tensor labels = in.at("labels");
  batch.texts = ClassInputs(in, device);
  batch.labels = labels.to(device);
  batch.weight = labels.numel();
  if (head.problem == spec::ProblemType::kSingleLabel &&
      !head.class_weights.empty()) {
    batch.weight =
        WeightsOf(head, at::kCPU).index_select(0, labels).sum().item<double>();
  }
  return batch;
}

Batch MakeBatch(const Tuned& tuned, const Tensors& in) {
  return tuned.classifier ? ClassBatch(tuned.head, in, tuned.device)
                          : LanguageBatch(in, tuned.device);
}

at::Tensor Logits(const Tuned& tuned, const Batch& batch) {
  return tuned.classifier ? tuned.classifier->Logits(batch.texts)
                          : tuned.decoder->Logits(batch.inputs);
}

at::Tensor SumLoss(const Tuned& tuned, const Batch& batch) {
  if (tuned.classifier) {
    return model::SumClassLoss(
        tuned.head.problem, tuned.classifier->Logits(batch.texts), batch.labels,
        WeightsOf(tuned.head, tuned.device));
  }
  return model::SumCrossEntropy(tuned.decoder->Hidden(batch.inputs),
                                tuned.decoder->head(), batch.selection);
}

// The gradient of what the batches' losses sum up to by `weight`, in the
// parameters' .grad; returns that loss.
at::Tensor Gradients(Tuned& tuned, const std::vector<Batch>& batches,
                     double weight) {
  at::Tensor total = at::zeros({}, at::kFloat).to(tuned.device);
  tuned.trainable->parameters().ZeroGradients();
  if (tuned.fast) tuned.fast->Begin();
  for (const Batch& batch : batches) {
    if (tuned.fast) {
      total.add_(tuned.fast->Add(batch.inputs, batch.selection, 1 / weight) /
                 weight);
      continue;
    }
    const at::Tensor loss = SumLoss(tuned, batch) / weight;
    loss.backward();
    total.add_(loss.detach());
  }
  if (tuned.fast) tuned.fast->End();
  return total;
}

}  // namespace

Tensors ForwardBackward(Tuned& tuned, const Tensors& inputs,
                        std::optional<uint64_t> seed) {
  const Batch batch = MakeBatch(tuned, inputs);
  Tensors out;
  tuned.trainable->set_training(seed.has_value());
  tuned.model->set_training(seed.has_value());
  if (seed) Seed(*seed);
  {
    at::NoGradGuard no_grad;
    out["logits"] = Logits(tuned, batch).to(at::kFloat).cpu();
  }
  if (seed) Seed(*seed);
  optim::ParameterSet& parameters = tuned.trainable->parameters();
  out["loss"] = Gradients(tuned, {batch}, batch.weight).reshape({1}).cpu();
  for (const optim::Parameter& p : parameters.parameters()) {
    out["grad." + p.name] = p.value.grad().detach().clone().cpu();
  }
  return out;
}

namespace {

// The samples [begin, end), cut to the longest of them.
Batch TrainBatch(const Tuned& tuned, const Tensors& inputs, int64_t begin,
                 int64_t end) {
  const auto rows = [&](const at::Tensor& all) {
    return all.narrow(0, begin, end - begin);
  };
  if (inputs.contains("train.pixels")) {
    return MakeBatch(tuned, {{"pixels", rows(inputs.at("train.pixels"))},
                             {"labels", rows(inputs.at("train.labels"))}});
  }
  const at::Tensor lengths = rows(inputs.at("train.lengths"));
  const int64_t width = lengths.max().item<int64_t>();
  Tensors batch;
  for (const char* name : {"input_ids", "token_type_ids", "labels"}) {
    const at::Tensor all = Get(inputs, std::string("train.") + name);
    if (!all.defined()) continue;
    const bool by_token = !tuned.classifier || name != std::string("labels");
    batch[name] =
        (by_token ? rows(all).narrow(1, 0, width) : rows(all)).contiguous();
  }
  batch["attention_mask"] =
      (at::arange(width) < lengths.unsqueeze(1)).to(at::kLong);
  return MakeBatch(tuned, batch);
}

// The micro-batches of one optimizer step; the last of an epoch may be short.
std::vector<Batch> StepBatches(const Tuned& tuned, const Tensors& inputs,
                               const spec::TrainingSpec& spec, int64_t& next) {
  const int64_t samples = inputs.at("train.labels").size(0);
  std::vector<Batch> batches;
  for (int64_t i = 0; i < spec.gradient_accumulation_steps; ++i) {
    if (next >= samples) break;
    const int64_t end =
        std::min(samples, next + spec.per_device_train_batch_size);
    batches.push_back(TrainBatch(tuned, inputs, next, end));
    next = end;
  }
  if (next >= samples) next = 0;
  return batches;
}

double BackwardAll(Tuned& tuned, const std::vector<Batch>& batches) {
  double weight = 0;
  for (const Batch& batch : batches) weight += batch.weight;
  return Gradients(tuned, batches, weight).item<double>();
}

}  // namespace

absl::StatusOr<Tensors> Train(Tuned& tuned, const Tensors& inputs,
                              const spec::TrainingSpec& spec) {
  auto schedule = optim::Schedule::Create(spec, spec.max_steps);
  if (!schedule.ok()) return schedule.status();
  optim::AdamW optimizer(tuned.trainable->parameters(), spec);
  tuned.trainable->set_training(true);
  tuned.model->set_training(false);
  std::vector<float> losses, norms, rates;
  int64_t next = 0;
  for (int64_t step = 0; step < spec.max_steps; ++step) {
    const auto batches = StepBatches(tuned, inputs, spec, next);
    losses.push_back(static_cast<float>(BackwardAll(tuned, batches)));
    const at::Tensor norm = optimizer.GradientNorm();
    norms.push_back(norm.item<float>());
    if (spec.max_grad_norm > 0) optimizer.Clip(norm, spec.max_grad_norm);
    rates.push_back(static_cast<float>(schedule->LearningRate(step)));
    optimizer.Step(schedule->LearningRate(step));
  }
  Tensors out = {{"train.losses", at::tensor(losses)},
                 {"train.grad_norms", at::tensor(norms)},
                 {"train.learning_rates", at::tensor(rates)}};
  for (const optim::Parameter& p : tuned.trainable->parameters().parameters()) {
    out["final." + p.name] = p.value.detach().clone().cpu();
  }
  return out;
}

absl::StatusOr<spec::TrainingSpec> ParseTraining(const std::string& json) {
  const auto training = nlohmann::json::parse(json, nullptr, false);
  const nlohmann::json job = {{"model", "unused"},
                              {"dataset", {{"train", {"unused.jsonl"}}}},
                              {"training", training}};
  auto spec = spec::ParseTrainSpec(job.dump(), "training");
  if (!spec.ok()) return spec.status();
  return spec->training;
}

double RelativeError(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  const at::Tensor wide = b.to(at::kDouble);
  const double distance = (a.to(at::kDouble) - wide).norm().item<double>();
  const double scale = wide.norm().item<double>();
  return scale > 0 ? distance / scale : distance;
}

}  // namespace mpsd::parity
