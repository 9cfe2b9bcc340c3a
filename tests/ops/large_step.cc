// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/large_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <ostream>
#include <utility>

#include "core/ckpt/safetensors.h"
#include "core/device/device.h"
#include "core/full/full_model.h"
#include "core/lora/lora.h"
#include "core/optim/adamw.h"
#include "core/spec/targets.h"
#include "core/train/step.h"
#include "core/train/task_pipeline.h"
#include "tests/core/scratch_folder.h"
#include "tests/ops/fake_mps.h"
#include "tests/ops/jobs.h"

namespace mpsd::ops {
namespace {

using nlohmann::json;

json Encoder(const char* type, int64_t width, int64_t inner, int64_t layers,
             int64_t heads) {
  return {{"model_type", type},
          {"vocab_size", 2000},
          {"hidden_size", width},
          {"intermediate_size", inner},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"max_position_embeddings", 514},
          {"type_vocab_size", 2},
          {"pad_token_id", 1}};
}

json Vit(int64_t width, int64_t inner, int64_t layers, int64_t heads) {
  return {{"model_type", "vit"},
          {"hidden_size", width},
          {"intermediate_size", inner},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"image_size", 224},
          {"patch_size", 16},
          {"num_channels", 3},
          {"hidden_dropout_prob", 0.0},
          {"attention_probs_dropout_prob", 0.0}};
}

// Counts kernels' work by their arguments' shapes.
class WorkCounter : public KernelObserver {
 public:
  explicit WorkCounter(StepCounts& counts) : counts_(counts) {
    InstallFakeMps();
    begin_ = LiveBytes();
    SetKernelObserver(this);
  }
  ~WorkCounter() override { SetKernelObserver(nullptr); }

  void OnKernel(const Kernel& kernel) override {
    if (!counting_) return;
    ++counts_.kernels;
    counts_.operations += Operations(kernel);
    if (MakesNumbers(kernel.op, kernel.inputs)) {
      counts_.bytes += Bytes(kernel.inputs) + Bytes(kernel.outputs);
    }
  }
  void OnMemory(int64_t, int64_t live) override {
    counts_.peak = std::max(counts_.peak, live - begin_);
  }
  void Begin() { counting_ = true; }
  void End() { counting_ = false; }

 private:
  static double Count(const at::Tensor& t) {
    return static_cast<double>(t.numel());
  }
  // 2 m k n for every product of an operator.
  static double Operations(const Kernel& kernel) {
    std::string name = kernel.op.schema().name();
    if (name.ends_with("_")) name.pop_back();
    const auto tensor = [&](size_t i) { return kernel.inputs[i].toTensor(); };
    if (name == "aten::mm" || name == "aten::bmm") {
      return 2 * Count(tensor(0)) * static_cast<double>(tensor(1).size(-1));
    }
    if (name == "aten::addmm" || name == "aten::baddbmm") {
      return 2 * Count(tensor(1)) * static_cast<double>(tensor(2).size(-1));
    }
    if (name == "aten::linear") {
      return 2 * Count(tensor(0)) * static_cast<double>(tensor(1).size(0));
    }
    if (name == "aten::linear_backward") {
      // (input, gradient, weight, [which of input, weight, bias])
      const auto wanted = kernel.inputs[3].toBoolList();
      const double products = (wanted[0] ? 1 : 0) + (wanted[1] ? 1 : 0);
      return products * 2 * Count(tensor(1)) *
             static_cast<double>(tensor(2).size(1));
    }
    if (name == "aten::_mps_convolution" || name == "aten::convolution") {
      const at::Tensor weight = tensor(1);
      return 2 * Count(kernel.outputs[0].toTensor()) * Count(weight) /
             static_cast<double>(weight.size(0));
    }
    if (name == "aten::convolution_backward" ||
        name == "aten::mps_convolution_backward") {
      const at::Tensor weight = tensor(2);  // only its gradient is wanted
      return 2 * Count(tensor(0)) * Count(weight) /
             static_cast<double>(weight.size(0));
    }
    return 0;
  }
  static double Bytes(c10::ArrayRef<c10::IValue> values) {
    double bytes = 0;
    const auto add = [&bytes](const at::Tensor& t) {
      if (IsFake(t)) bytes += static_cast<double>(t.nbytes());
    };
    for (const c10::IValue& value : values) {
      if (value.isTensor()) add(value.toTensor());
      if (!value.isTensorList()) continue;
      for (const at::Tensor& t : value.toTensorVector()) add(t);
    }
    return bytes;
  }

  StepCounts& counts_;
  int64_t begin_ = 0;
  bool counting_ = false;
};

data::Batch Texts(int64_t rows, int64_t length, bool packed) {
  data::Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.packed = packed;
  for (int64_t i = 0; i < rows * length; ++i) {
    const int64_t at = i % length;
    batch.input_ids.push_back(2 + at % 1000);
    batch.labels.push_back(at == 0 ? base::kIgnoreIndex : at % 1000);
    batch.position_ids.push_back(at);
    batch.segment_ids.push_back(at / std::max<int64_t>(length / 8, 1));
  }
  batch.loss_weight = static_cast<double>(rows * (length - 1));
  return batch;
}

data::Batch Classes(const spec::ModelConfig& model, int64_t rows,
                    int64_t length) {
  data::Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.loss_weight = static_cast<double>(rows);
  for (int64_t i = 0; i < rows; ++i) {
    batch.classes.push_back(i % 2);
    batch.samples.push_back(i);
    batch.lengths.push_back(length);
  }
  if (model.family == spec::Family::kVision) {
    batch.length = 1;
    const int64_t side = model.vision.image_size;
    batch.pixels = at::zeros({rows, model.vision.num_channels, side, side});
  } else {
    batch.input_ids.assign(rows * length, 7);
    if (model.encoder.type_vocab_size > 1) {
      batch.token_type_ids.assign(rows * length, 0);
    }
  }
  return batch;
}

std::unique_ptr<optim::Trainable> Attach(const spec::TrainSpec& spec,
                                         const std::filesystem::path& folder,
                                         model::Network& network,
                                         device::Device& device) {
  if (spec.fine_tune_type == spec::FineTuneType::kLora) {
    return lora::Adapter::Attach(network, spec.lora, device.torch_device())
        .value();
  }
  full::FullModel::Options options;
  options.head_only = spec.fine_tune_type == spec::FineTuneType::kHead;
  options.task = spec.task;
  options.model_folder = folder.string();
  return full::FullModel::Attach(network, std::move(options),
                                 device.torch_device())
      .value();
}

}  // namespace

void PrintTo(const LargeJob& job, std::ostream* out) { *out << job.name; }

json Decoder(const char* type, int64_t vocab, int64_t width, int64_t inner,
             int64_t layers, int64_t heads, int64_t kv_heads, bool tied) {
  return {{"model_type", type},
          {"vocab_size", vocab},
          {"hidden_size", width},
          {"intermediate_size", inner},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},
          {"max_position_embeddings", 32768},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"use_sliding_window", false},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", tied}};
}

spec::TrainSpec SpecOf(const LargeJob& job) {
  json all = {{"model", "m"},
              {"dataset", {{"train", "t"}}},
              {"device", "mps"},
              {"lora", {{"r", 16}, {"target_modules", "all-linear"}}},
              {"training",
               {{"bf16", true},
                {"per_device_train_batch_size", job.rows},
                {"max_length", std::max<int64_t>(job.length, 32)}}}};
  all.merge_patch(json::parse(job.job));
  return spec::ParseTrainSpec(all.dump(), "job.json").value();
}

void RunStep(const LargeJob& job, const spec::TrainSpec& spec,
             const spec::ModelConfig& config,
             const std::filesystem::path& folder,
             const std::function<void(bool begins)>& within) {
  const bool language = spec.task == spec::Task::kCausalLm;
  const auto device = *device::OpenMps();
  const auto task = train::TaskPipeline::Make(spec);
  std::unique_ptr<tensorfile::Weights> weights;
  if (config.family == spec::Family::kDecoder) {
    weights = *tensorfile::Weights::Open(folder);
  }
  model::WeightSource source{weights.get(), device->torch_device()};
  source.dtype = spec.training.bf16 ? at::kBFloat16 : at::kFloat;
  source.draw_on_device = weights == nullptr;
  source.quantization = spec.quantization_config;
  source.ignore_mismatched_heads = true;
  auto network = task->LoadModel(source, config, nullptr).value();
  network->set_options(
      {attention::AttentionKernel::kTiled, spec.training.recompute()});
  auto trainable = Attach(spec, folder, *network, *device);
  optim::AdamW optimizer(trainable->parameters(), spec.training);
  train::Stepper stepper({*task, *network, *trainable, *device}, optimizer,
                         1.0);
  const data::Batch batch =
      language ? Texts(job.rows, job.length, spec.training.packing)
               : Classes(config, job.rows, job.length);
  within(true);
  stepper.AccumulateGradients({batch});
  within(false);
  at::NoGradGuard no_grad;
  optimizer.Clip(optimizer.GradientNorm(), 1.0);
  optimizer.Step(1e-4);
}

json ConfigOf(const std::string& model) {
  if (model == "llama2_7b") {
    return Decoder("llama", 32000, 4096, 11008, 2, 32, 32, false);
  }
  if (model == "mistral_7b") {
    return Decoder("mistral", 32000, 4096, 14336, 2, 32, 8, false);
  }
  if (model == "qwen_half_b") {
    return Decoder("qwen2", 151936, 896, 4864, 8, 14, 2, true);
  }
  if (model == "smollm") {
    return Decoder("llama", 49152, 576, 1536, 10, 9, 3, true);
  }
  if (model == "qwen3_06b") {
    json config = Decoder("qwen3", 151936, 1024, 3072, 8, 16, 8, true);
    config["head_dim"] = 128;
    return config;
  }
  if (model == "roberta") return Encoder("roberta", 384, 1536, 4, 12);
  if (model == "distilbert") {
    return {{"model_type", "distilbert"},
            {"vocab_size", 2000},
            {"dim", 384},
            {"hidden_dim", 1536},
            {"n_layers", 4},
            {"n_heads", 12},
            {"max_position_embeddings", 512}};
  }
  if (model == "vit") return Vit(384, 1536, 4, 6);
  EXPECT_EQ(model, "bert");
  return Encoder("bert", 384, 1536, 4, 12);
}

StepCounts CountStep(const LargeJob& job) {
  InstallFakeMps();
  const auto folder = testing_support::FreshFolder("large_step_" + job.name);
  std::ofstream(folder / "config.json") << job.config.dump();
  StepCounts counts;
  counts.spec = SpecOf(job);
  counts.model = spec::ReadModelConfig(folder.string()).value();
  if (counts.model.family == spec::Family::kDecoder) {
    WriteHollowDecoder(folder, job.config);
    // Meta tensors lack an operator of layer_norm, which others have.
    SetExecution(Execution::kShapesOnly);
  }
  if (counts.spec.task != spec::Task::kCausalLm) counts.model.num_labels = 2;
  if (counts.spec.fine_tune_type == spec::FineTuneType::kLora) {
    counts.spec.lora = spec::EffectiveLora(counts.spec.lora, counts.model);
  }
  {
    WorkCounter counter(counts);
    RunStep(job, counts.spec, counts.model, folder,
            [&](bool begins) { begins ? counter.Begin() : counter.End(); });
  }
  SetExecution(Execution::kCompute);
  std::filesystem::remove_all(folder);
  return counts;
}

}  // namespace mpsd::ops
