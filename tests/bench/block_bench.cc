// SPDX-License-Identifier: Apache-2.0
// Times the blocks of core/explicit_step, forward and backward each, on random
// weights of a real model's shape. Takes google-benchmark's options too, among
// them
// --benchmark_filter and --benchmark_format=json.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "core/device/device.h"
#include "core/explicit_step/attention_block.h"
#include "core/explicit_step/head.h"
#include "core/explicit_step/mlp_block.h"
#include "core/explicit_step/norm.h"
#include "core/lora/lora.h"
#include "core/model/decoder.h"
#include "tests/bench/shapes.h"

namespace mpsd::bench {
namespace {

struct Arguments {
  std::string shape = "smol135m", dtype = "fp32", device = "cpu";
  std::string kernels;  // "mps": what MPS trains with
  int64_t rows = 1, length = 256, rank = 8;
};

// One layer with adapters on all its linears, and what its blocks take.
class Layer {
 public:
  explicit Layer(const Arguments& a) : a_(a) {}

  absl::Status Setup() {
    auto opened = a_.device == "cuda" ? device::OpenCuda() : device::OpenCpu();
    if (!opened.ok()) return opened.status();
    device_ = *std::move(opened);
    device_->Seed(1);
    auto config = ConfigOf(a_.shape);
    if (!config.ok()) return config.status();
    config->num_hidden_layers = 1;
    options_.dtype = a_.dtype == "bf16" ? at::kBFloat16 : at::kFloat;
    options_.traits = a_.kernels == "mps"
                          ? backend::TraitsOf(backend::Choice::kMps)
                          : device_->traits();
    model::WeightSource source;
    source.device = device_->torch_device();
    source.dtype = options_.dtype;
    source.draw_on_device = true;
    auto decoder = model::Decoder::Load(source, *config);
    if (!decoder.ok()) return decoder.status();
    decoder_ = *std::move(decoder);
    spec::LoraSpec lora;
    lora.r = a_.rank;
    lora.target_modules = spec::LoraSpec::AllLinear{};
    auto adapter = lora::Adapter::Attach(*decoder_, lora, source.device);
    if (!adapter.ok()) return adapter.status();
    adapter_ = *std::move(adapter);
    MakeBlocks(*config);
    MakeInputs(*config);
    device_->BeginSteps();
    return absl::OkStatus();
  }

  void Register() {
    Add("norm/forward", [this] {
      benchmark::DoNotOptimize(
          explicit_step::NormForward(x_, layer().input_norm, options_));
    });
    Add("norm/backward", [this, n = explicit_step::NormForward(
                                    x_, layer().input_norm, options_)] {
      benchmark::DoNotOptimize(explicit_step::NormBackward(
          d_, x_, n.rstd, layer().input_norm, {}, options_));
    });
    Add("attention/forward", [this] {
      explicit_step::AttentionBlockTape tape;
      benchmark::DoNotOptimize(attention_->Forward(x_, plan_, *rope_, tape));
    });
    auto kept = std::make_shared<explicit_step::AttentionBlockTape>();
    attention_->Forward(x_, plan_, *rope_, *kept);
    Add("attention/backward", [this, kept] {
      benchmark::DoNotOptimize(attention_->Backward(
          d_.clone(), x_, plan_, *rope_, *kept, /*wants_dx=*/true));
    });
    Add("mlp/forward", [this] {
      explicit_step::MlpTape tape;
      benchmark::DoNotOptimize(mlp_->Forward(x_, tape));
    });
    // The backward uses up its tape: both are timed.
    Add("mlp/both", [this] {
      explicit_step::MlpTape tape;
      mlp_->Forward(x_, tape);
      benchmark::DoNotOptimize(
          mlp_->Backward(d_.clone(), x_, tape, /*wants_dh=*/true));
    });
    Add("head/both", [this] {
      benchmark::DoNotOptimize(head_->Loss(x_, targets_, /*scale=*/1).grad);
    });
  }

 private:
  const model::DecoderLayer& layer() const { return decoder_->layers()[0]; }

  void MakeBlocks(const spec::ModelConfig& config) {
    shape_ = {config.num_attention_heads, config.num_key_value_heads,
              config.head_dim};
    attention_ = std::make_unique<explicit_step::AttentionBlock>(
        layer(), shape_, options_, pack_);
    mlp_ = std::make_unique<explicit_step::MlpBlock>(layer(), options_, pack_);
    head_ = std::make_unique<explicit_step::LossHead>(decoder_->head(),
                                                      options_, pack_);
    pack_.Allocate(device_->torch_device(), options_.dtype);
    pack_.Refresh();
  }

  void MakeInputs(const spec::ModelConfig& config) {
    const auto like = at::device(device_->torch_device()).dtype(options_.dtype);
    const int64_t tokens = a_.rows * a_.length;
    x_ = at::randn({tokens, config.hidden_size}, like);
    d_ = at::randn({tokens, config.hidden_size}, like);
    targets_ = at::randint(config.vocab_size, {tokens}, like.dtype(at::kLong));
    model::DecoderInputs inputs;
    inputs.input_ids = targets_.view({a_.rows, a_.length});
    inputs.position_ids = at::arange(a_.length, like.dtype(at::kLong))
                              .expand({a_.rows, a_.length})
                              .contiguous();
    rope_ =
        std::make_unique<explicit_step::RopeTable>(explicit_step::MakeRopeTable(
            decoder_->rotary().Table(inputs.position_ids.narrow(0, 0, 1),
                                     options_.dtype),
            shape_.heads + shape_.kv_heads, options_));
    plan_ = attention::PlanAttention(inputs.layout(), 0,
                                     rope_->rotation.defined() && a_.rows > 1,
                                     shape_, options_);
  }

  void Add(const std::string& name, std::function<void()> work) {
    benchmark::RegisterBenchmark(
        name.c_str(),
        [this, work](benchmark::State& state) {
          const at::NoGradGuard no_grad;
          for (auto _ : state) {
            work();
            device_->Synchronize();
          }
          state.counters["tokens/s"] =
              benchmark::Counter(static_cast<double>(a_.rows * a_.length),
                                 benchmark::Counter::kIsIterationInvariantRate);
        })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }

  const Arguments a_;
  explicit_step::Options options_;
  attention::HeadShape shape_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<model::Decoder> decoder_;
  std::unique_ptr<lora::Adapter> adapter_;
  explicit_step::LoraPack pack_;
  std::unique_ptr<explicit_step::AttentionBlock> attention_;
  std::unique_ptr<explicit_step::MlpBlock> mlp_;
  std::unique_ptr<explicit_step::LossHead> head_;
  attention::AttentionPlan plan_;
  std::unique_ptr<explicit_step::RopeTable> rope_;
  at::Tensor x_, d_, targets_;
};

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);  // takes its own arguments out
  Arguments a;
  CLI::App app("Times the blocks of a LoRA step on random weights.");
  app.add_option("--shape", a.shape, "llama7b, qwen0.5b, smol135m or tiny");
  app.add_option("--dtype", a.dtype)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--device", a.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--kernels", a.kernels, "mps: the kernels that MPS gets")
      ->check(CLI::IsMember({"", "mps"}));
  app.add_option("--mb", a.rows);
  app.add_option("--seq", a.length);
  app.add_option("--rank", a.rank);
  CLI11_PARSE(app, argc, argv);
  const at::NoGradGuard no_grad;
  Layer layer(a);
  if (absl::Status s = layer.Setup(); !s.ok()) {
    std::fprintf(stderr, "%s\n", std::string(s.message()).c_str());
    return 1;
  }
  layer.Register();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace mpsd::bench

int main(int argc, char** argv) { return mpsd::bench::Main(argc, argv); }
