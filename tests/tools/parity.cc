// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/parity.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "core/lora/peft_folder.h"
#include "core/optim/adamw.h"
#include "core/optim/schedule.h"
#include "core/spec/model_config.h"
#include "core/tensorfile/safetensors.h"
#include "core/tensorfile/weights.h"
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

absl::StatusOr<Tuned> Load(const fs::path& model_dir,
                           const fs::path& adapter_dir, at::Device device) {
  auto config = spec::ReadModelConfig(model_dir.string());
  if (!config.ok()) return config.status();
  auto weights = tensorfile::Weights::Open(model_dir);
  if (!weights.ok()) return weights.status();
  auto model = model::Decoder::Load(**weights, *config, device, at::kFloat);
  if (!model.ok()) return model.status();
  auto lora = lora::ReadPeftConfig(adapter_dir);
  if (!lora.ok()) return lora.status();
  auto adapter = lora::Adapter::Attach(**model, *lora, device);
  if (!adapter.ok()) return adapter.status();
  absl::Status status =
      lora::LoadPeftWeights(adapter_dir, (*adapter)->parameters());
  if (!status.ok()) return status;
  return Tuned{*std::move(model), *std::move(adapter), *std::move(lora),
               device};
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
    if (label[i + 1] == LabelSelection::kNoTarget) continue;
    if (segment != nullptr && segment[i] != segment[i + 1]) continue;
    chosen.push_back(i);
    targets.push_back(label[i + 1]);
  }
  LabelSelection selection;
  selection.count = static_cast<int64_t>(targets.size());
  while (targets.size() % 64 != 0) {
    chosen.push_back(0);
    targets.push_back(LabelSelection::kNoTarget);
  }
  selection.rows = at::tensor(chosen, at::kLong);
  selection.targets = at::tensor(targets, at::kLong);
  return selection;
}

namespace {

struct Batch {
  model::DecoderInputs inputs;
  LabelSelection labels;
};

Batch MakeBatch(const at::Tensor& ids, const at::Tensor& labels,
                const at::Tensor& positions, const at::Tensor& segments,
                at::Device device) {
  Batch batch;
  batch.labels = SelectLabels(labels, segments);
  batch.labels.rows = batch.labels.rows.to(device);
  batch.labels.targets = batch.labels.targets.to(device);
  batch.inputs.input_ids = ids.to(device);
  batch.inputs.position_ids =
      (positions.defined() ? positions : at::arange(ids.size(1)).expand_as(ids))
          .contiguous()
          .to(device);
  if (segments.defined()) batch.inputs.segment_ids = segments.to(device);
  return batch;
}

at::Tensor Get(const Tensors& tensors, const std::string& name) {
  auto it = tensors.find(name);
  return it == tensors.end() ? at::Tensor() : it->second;
}

at::Tensor SumLoss(const Tuned& tuned, const Batch& batch) {
  return model::SumCrossEntropy(tuned.model->Hidden(batch.inputs),
                                tuned.model->head(), batch.labels);
}

void Seed(uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

Tensors ForwardBackward(Tuned& tuned, const Tensors& inputs,
                        std::optional<uint64_t> seed) {
  const Batch batch = MakeBatch(inputs.at("input_ids"), inputs.at("labels"),
                                Get(inputs, "position_ids"),
                                Get(inputs, "sequence_ids"), tuned.device);
  Tensors out;
  tuned.adapter->set_training(seed.has_value());
  if (seed) Seed(*seed);
  {
    at::NoGradGuard no_grad;
    out["logits"] = tuned.model->Logits(batch.inputs).cpu();
  }
  if (seed) Seed(*seed);
  tuned.adapter->parameters().ZeroGradients();
  const at::Tensor loss = SumLoss(tuned, batch) / batch.labels.count;
  loss.backward();
  out["loss"] = loss.detach().reshape({1}).cpu();
  for (const optim::Parameter& p : tuned.adapter->parameters().parameters()) {
    out["grad." + p.name] = p.value.grad().detach().clone().cpu();
  }
  return out;
}

namespace {

// The samples [begin, end), cut to the longest of them.
Batch TrainBatch(const Tensors& inputs, int64_t begin, int64_t end,
                 at::Device device) {
  const int64_t width = inputs.at("train.lengths")
                            .narrow(0, begin, end - begin)
                            .max()
                            .item<int64_t>();
  auto cut = [&](const char* name) {
    return inputs.at(name)
        .narrow(0, begin, end - begin)
        .narrow(1, 0, width)
        .contiguous();
  };
  return MakeBatch(cut("train.input_ids"), cut("train.labels"), {}, {}, device);
}

// The micro-batches of one optimizer step; the last of an epoch may be short.
std::vector<Batch> StepBatches(const Tensors& inputs,
                               const spec::TrainingSpec& spec, int64_t& next,
                               at::Device device) {
  const int64_t samples = inputs.at("train.input_ids").size(0);
  std::vector<Batch> batches;
  for (int64_t i = 0; i < spec.gradient_accumulation_steps; ++i) {
    if (next >= samples) break;
    const int64_t end =
        std::min(samples, next + spec.per_device_train_batch_size);
    batches.push_back(TrainBatch(inputs, next, end, device));
    next = end;
  }
  if (next >= samples) next = 0;
  return batches;
}

double BackwardAll(Tuned& tuned, const std::vector<Batch>& batches) {
  int64_t targets = 0;
  for (const Batch& batch : batches) targets += batch.labels.count;
  at::Tensor total = at::zeros({}, at::kFloat).to(tuned.device);
  tuned.adapter->parameters().ZeroGradients();
  for (const Batch& batch : batches) {
    const at::Tensor loss = SumLoss(tuned, batch) / targets;
    loss.backward();
    total.add_(loss.detach());
  }
  return total.item<double>();
}

}  // namespace

absl::StatusOr<Tensors> Train(Tuned& tuned, const Tensors& inputs,
                              const spec::TrainingSpec& spec) {
  auto schedule = optim::Schedule::Create(spec, spec.max_steps);
  if (!schedule.ok()) return schedule.status();
  optim::AdamW optimizer(tuned.adapter->parameters(), spec);
  tuned.adapter->set_training(true);
  std::vector<float> losses, norms, rates;
  int64_t next = 0;
  for (int64_t step = 0; step < spec.max_steps; ++step) {
    const auto batches = StepBatches(inputs, spec, next, tuned.device);
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
  for (const optim::Parameter& p : tuned.adapter->parameters().parameters()) {
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
