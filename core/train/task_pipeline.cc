// SPDX-License-Identifier: Apache-2.0
#include "core/train/task_pipeline.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <deque>

#include "core/base/check.h"
#include "core/device/block_mark.h"
#include "core/train/classification.h"
#include "core/train/language_modelling.h"
#include "core/train/preferences.h"

namespace mpsd::train {
namespace {

// Each tensor of a buffer begins at a multiple of this many bytes: Metal
// requires it of the offset of any argument.
constexpr int64_t kAlignment = 256;

// Collects the tensors of one type, so that one copy transfers all of them.
template <typename T>
class Buffer {
 public:
  // `values` must outlive Send, which fills in `target`.
  void Add(const std::vector<T>& values, std::vector<int64_t> shape,
           at::Tensor& target) {
    constexpr int64_t kStep = kAlignment / static_cast<int64_t>(sizeof(T));
    pieces_.push_back({&values, std::move(shape), &target, size_});
    const auto count = static_cast<int64_t>(values.size());
    size_ += (count + kStep - 1) / kStep * kStep;
  }
  void Add(std::vector<T>&& values, std::vector<int64_t> shape,
           at::Tensor& target) {
    own_.push_back(std::move(values));
    Add(own_.back(), std::move(shape), target);
  }

  void Send(const device::Device& device, std::vector<at::Tensor>& kept) {
    if (pieces_.empty()) return;
    // From page-locked memory the device copies by itself, and torch keeps such
    // memory for the next step.
    const bool own = device.traits().memory == backend::MemoryPlace::kOwn;
    const at::Tensor host = at::empty(
        {size_},
        at::dtype(c10::CppTypeToScalarType<T>::value).pinned_memory(own));
    T* data = host.mutable_data_ptr<T>();
    for (const Piece& piece : pieces_) {
      base::CheckAtMost(piece.begin + std::ssize(*piece.values), size_,
                        "the ends of a piece and of the buffer");
      std::copy(piece.values->begin(), piece.values->end(), data + piece.begin);
    }
    const at::Tensor there = host.to(
        host.options().device(device.torch_device()), /*non_blocking=*/true);
    for (const Piece& piece : pieces_) {
      const auto count = static_cast<int64_t>(piece.values->size());
      *piece.target = there.narrow(0, piece.begin, count).view(piece.shape);
    }
    kept.push_back(host);
  }

 private:
  struct Piece {
    const std::vector<T>* values;
    std::vector<int64_t> shape;
    at::Tensor* target;
    int64_t begin;
  };
  std::vector<Piece> pieces_;
  std::deque<std::vector<T>> own_;
  int64_t size_ = 0;
};

int64_t PaddedCount(int64_t count, const device::Device& device) {
  for (const int64_t small : {16, 32, 64, 128}) {
    if (count <= small) return small;
  }
  const device::Traits& traits = device.traits();
  if (!traits.compiles_each_shape) return (count + 63) / 64 * 64;
  int64_t power = 128;
  while (power < count) power *= 2;
  const int64_t middle = power / 4 * 3;
  const int64_t padded = count <= middle ? middle : power;
  // The gradient of an adapter on the head sums over the labels, within the
  // device's bound.
  const auto most = traits.max_sum;
  return most ? std::min(padded, std::max(count, *most)) : padded;
}

void AddLabels(const data::Batch& batch, const device::Device& device,
               Buffer<int64_t>& integers, model::LabelSelection& labels) {
  base::CheckEqual(batch.labels.size(), batch.rows * batch.length,
                   "labels of a batch and its cells");
  // The output at token i predicts token i + 1 of the same segment.
  std::vector<int64_t> rows, targets;
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t i = 0; i + 1 < batch.length; ++i) {
      const int64_t at = r * batch.length + i;
      if (batch.labels[at + 1] == base::kIgnoreIndex) continue;
      rows.push_back(at);
      targets.push_back(batch.labels[at + 1]);
    }
  }
  labels.count = static_cast<int64_t>(rows.size());
  if (labels.count == 0) return;
  const int64_t padded = PaddedCount(labels.count, device);
  base::CheckAtMost(labels.count, padded, "labels and their padded count");
  rows.resize(padded, 0);
  targets.resize(padded, base::kIgnoreIndex);
  integers.Add(std::move(rows), {padded}, labels.rows);
  integers.Add(std::move(targets), {padded}, labels.targets);
}

void AddTokens(const data::Batch& batch, Buffer<int64_t>& integers,
               model::DecoderInputs& decoder) {
  const std::vector<int64_t> shape = {batch.rows, batch.length};
  base::CheckEqual(batch.input_ids.size(), batch.rows * batch.length,
                   "ids of a batch and its cells");
  integers.Add(batch.input_ids, shape, decoder.input_ids);
  if (!batch.packed) return;  // undefined positions count from 0 in each row
  integers.Add(batch.position_ids, shape, decoder.position_ids);
  integers.Add(batch.segment_ids, shape, decoder.segment_ids);
  decoder.segment_lengths = attention::SegmentLengths(at::from_blob(
      const_cast<int64_t*>(batch.segment_ids.data()), shape, at::kLong));
}

void AddClasses(const data::Batch& batch, int64_t outputs,
                Buffer<int64_t>& integers, Buffer<float>& floats,
                BatchInputs& inputs) {
  model::ClassifierInputs& m = inputs.classifier;
  if (!batch.pixels.defined()) {
    const std::vector<int64_t> shape = {batch.rows, batch.length};
    integers.Add(batch.input_ids, shape, m.input_ids);
    base::CheckEqual(batch.lengths.size(), batch.rows, "lengths and rows");
    integers.Add(batch.lengths, {batch.rows}, m.lengths);
    if (!batch.token_type_ids.empty()) {
      integers.Add(batch.token_type_ids, shape, m.token_type_ids);
    }
    m.padded = std::any_of(batch.lengths.begin(), batch.lengths.end(),
                           [&](int64_t n) { return n < batch.length; });
  }
  if (!batch.classes.empty()) {
    integers.Add(batch.classes, {batch.rows}, inputs.targets);
  } else if (!batch.targets.empty()) {
    floats.Add(batch.targets, {batch.rows, outputs}, inputs.targets);
  }
}

}  // namespace

StepInputs LanguageInputs(std::span<const data::Batch> batches,
                          const device::Device& device) {
  StepInputs inputs;
  inputs.batches.resize(batches.size());
  Buffer<int64_t> integers;
  Buffer<float> floats;
  for (size_t i = 0; i < batches.size(); ++i) {
    BatchInputs& batch = inputs.batches[i];
    AddLabels(batches[i], device, integers, batch.labels);
    if (batch.labels.count > 0) AddTokens(batches[i], integers, batch.decoder);
    if (!batches[i].reference.empty()) {
      floats.Add(batches[i].reference, {batches[i].rows}, batch.reference);
    }
  }
  integers.Send(device, inputs.host);
  floats.Send(device, inputs.host);
  return inputs;
}

StepInputs ClassInputs(std::span<const data::Batch> batches, int64_t outputs,
                       const device::Device& device) {
  StepInputs inputs;
  inputs.batches.resize(batches.size());
  Buffer<int64_t> integers;
  Buffer<float> floats;
  for (size_t i = 0; i < batches.size(); ++i) {
    AddClasses(batches[i], outputs, integers, floats, inputs.batches[i]);
    const at::Tensor& pixels = batches[i].pixels;
    if (!pixels.defined()) continue;
    inputs.batches[i].classifier.pixels =
        pixels.to(device.torch_device(), /*non_blocking=*/true);
    inputs.host.push_back(pixels);
  }
  integers.Send(device, inputs.host);
  floats.Send(device, inputs.host);
  return inputs;
}

std::span<const data::Batch> FirstUpload(std::span<const data::Batch> batches) {
  size_t count = 0, bytes = 0;
  for (const data::Batch& batch : batches) {
    // Bytes of ids, of positions and segments (or types), and of the labels'
    // rows and targets.
    bytes += 5 * batch.input_ids.size() * sizeof(int64_t) +
             (batch.pixels.defined() ? batch.pixels.nbytes() : 0);
    if (count > 0 && bytes > static_cast<size_t>(kUploadBytes)) break;
    ++count;
  }
  return batches.first(count);
}

namespace {

// Adds the sum of the rows of `metrics`, times `scale`, to `sums`.
void AddScaled(const at::Tensor& metrics, double scale, at::Tensor& sums) {
  const at::Tensor added = metrics.detach().sum(0) * scale;
  sums = sums.defined() ? sums + added : added;
}

class AutogradPath : public GradientPath {
 public:
  AutogradPath(const TaskPipeline& pipeline, optim::Trainable& trainable,
               std::string name)
      : pipeline_(pipeline), trainable_(trainable), name_(std::move(name)) {}

  void Begin() override {
    trainable_.parameters().ZeroGradients();
    metrics_.reset();
  }

  at::Tensor Add(const BatchInputs& inputs, double scale) override {
    const BatchLoss loss = pipeline_.Loss(inputs);
    if (!loss.sum.defined()) return {};
    if (loss.metrics.defined()) AddScaled(loss.metrics, scale, metrics_);
    const at::Tensor part = loss.sum * scale;
    const profile::BlockMark mark("mpsd::backward");
    part.backward();
    return part.detach();
  }

  void End() override {}

  std::string name() const override { return name_; }
  at::Tensor metrics() const override { return metrics_; }

 private:
  const TaskPipeline& pipeline_;
  optim::Trainable& trainable_;
  const std::string name_;
  at::Tensor metrics_;
};

class ExplicitStepPath : public GradientPath {
 public:
  ExplicitStepPath(std::unique_ptr<explicit_step::ExplicitStep> step,
                   const model::Decoder& decoder, device::Device& device,
                   const spec::PreferenceSpec* preference)
      : step_(std::move(step)), decoder_(decoder), preference_(preference) {
    if (!device.traits().encodes_lazily) return;
    step_->set_commit([&device] { device.Commit(); });
  }

  void Begin() override {
    step_->set_recompute(decoder_.options().recompute);
    step_->Begin();
    metrics_.reset();
  }

  at::Tensor Add(const BatchInputs& inputs, double scale) override {
    if (inputs.labels.count == 0) return {};
    if (preference_ == nullptr) {
      return step_->Add(inputs.decoder, inputs.labels, scale).mul_(scale);
    }
    model::PairTerms terms;
    step_->Add(inputs.decoder, inputs.labels, scale,
               [&](const at::Tensor& losses) {
                 terms = model::TermsOfPairs(*preference_, AnswersOf(inputs),
                                             losses.squeeze(1));
                 return (terms.weights * scale).unsqueeze(1);
               });
    AddScaled(terms.metrics, scale, metrics_);
    return terms.losses.sum() * scale;
  }

  void End() override { step_->End(); }

  std::string name() const override { return kExplicitStep; }
  at::Tensor metrics() const override { return metrics_; }
  const attention::AttentionRan* attention() const override {
    return &step_->attention();
  }

 private:
  const std::unique_ptr<explicit_step::ExplicitStep> step_;
  const model::Decoder& decoder_;
  const spec::PreferenceSpec* const preference_;
  at::Tensor metrics_;
};

explicit_step::Options OptionsFor(const model::Decoder& decoder,
                                  const device::Device& device) {
  explicit_step::Options options;
  options.dtype = decoder.dtype();
  options.traits = device.traits();
  return options;
}

}  // namespace

std::unique_ptr<GradientPath> MakeAutogradPath(const TaskPipeline& pipeline,
                                               optim::Trainable& trainable,
                                               std::string name) {
  return std::make_unique<AutogradPath>(pipeline, trainable, std::move(name));
}

std::unique_ptr<GradientPath> MakeExplicitStepPath(
    const model::Decoder& decoder, optim::Trainable& trainable,
    device::Device& device, const spec::PreferenceSpec* preference) {
  auto step = explicit_step::ExplicitStep::Create(
      decoder, trainable.parameters(), OptionsFor(decoder, device));
  TORCH_CHECK(step.ok(), "ChooseGradients said otherwise: ",
              std::string(step.status().message()));
  return std::make_unique<ExplicitStepPath>(*std::move(step), decoder, device,
                                            preference);
}

std::unique_ptr<TaskPipeline> TaskPipeline::Make(const spec::TrainSpec& spec) {
  if (spec.preference.enabled()) return std::make_unique<Preferences>(spec);
  if (spec.task == spec::Task::kCausalLm) {
    return std::make_unique<LanguageModelling>(spec);
  }
  return std::make_unique<Classification>(spec);
}

}  // namespace mpsd::train
