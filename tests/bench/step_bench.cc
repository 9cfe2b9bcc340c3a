// SPDX-License-Identifier: Apache-2.0
// Times whole optimizer steps of LoRA on a decoder of a real model's shape with
// random weights and tokens, and prints one line of JSON.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "core/device/device.h"
#include "core/explicit_step/explicit_step.h"
#include "core/lora/lora.h"
#include "core/model/decoder.h"
#include "core/model/losses.h"
#include "core/optim/adamw.h"
#include "nlohmann/json.hpp"
#include "tests/bench/shapes.h"

namespace mpsd::bench {
namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::autograd::profiler::ProfilerResult;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::unique_ptr<ProfilerResult> Record(const std::function<void()>& work) {
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> activities = {ActivityType::CPU,
                                             ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities,
                                            {at::RecordScope::FUNCTION});
  work();
  return torch::autograd::profiler::disableProfiler();
}

// The device's own events, or of the host's those within no other; by start.
std::vector<const KinetoEvent*> Outermost(const ProfilerResult& result) {
  const auto on_device = [](const KinetoEvent& e) {
    return e.deviceType() != at::DeviceType::CPU;
  };
  const bool device =
      std::any_of(result.events().begin(), result.events().end(), on_device);
  std::vector<const KinetoEvent*> events;
  for (const KinetoEvent& e : result.events()) {
    if (on_device(e) == device && e.durationNs() > 0) events.push_back(&e);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const KinetoEvent* a, const KinetoEvent* b) {
                     return a->startNs() < b->startNs();
                   });
  if (device) return events;
  std::vector<const KinetoEvent*> outermost;
  uint64_t end = 0;
  for (const KinetoEvent* e : events) {
    if (e->startNs() < end) continue;
    end = e->startNs() + e->durationNs();
    outermost.push_back(e);
  }
  return outermost;
}

double Milliseconds(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

// Where the time of `work` goes, by torch's profiler:
//
//   by_name    the `most` costliest of the device's kernels, or on the CPU of
//              the ATen calls that no other makes: [ms, count, name] each
//   total_ms   of all of them
//   wall_ms    from the first one's start to the last one's end
//
// The profiler itself costs the host time: wall_ms is of use only where the
// device is the slower one.
nlohmann::json ProfileOf(const std::function<void()>& work, size_t most) {
  const std::unique_ptr<ProfilerResult> result = Record(work);
  std::map<std::string, std::pair<double, int64_t>> by_name;
  double total = 0;
  uint64_t first = UINT64_MAX, last = 0;
  for (const KinetoEvent* e : Outermost(*result)) {
    const double ms = Milliseconds(e->durationNs());
    auto& [sum, count] = by_name[e->name()];
    sum += ms;
    ++count;
    total += ms;
    first = std::min<uint64_t>(first, e->startNs());
    last = std::max<uint64_t>(last, e->startNs() + e->durationNs());
  }
  using Row = std::tuple<double, int64_t, std::string>;
  std::vector<Row> rows;
  for (const auto& [name, cost] : by_name) {
    rows.emplace_back(cost.first, cost.second, name);
  }
  std::sort(rows.rbegin(), rows.rend());
  nlohmann::json table = nlohmann::json::array();
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const auto& [ms, count, name] = rows[i];
    table.push_back({ms, count, name});
  }
  return {{"by_name", table},
          {"total_ms", total},
          {"wall_ms", first < last ? Milliseconds(last - first) : 0}};
}

struct Arguments {
  std::string shape = "tiny", dtype = "fp32", device = "cpu";
  std::string targets = "qv";          // or "all"
  std::string path = "explicit";       // or "autograd"
  std::string kernels = "";            // "mps": what MPS trains with
  std::string checkpointing = "none";  // "selective", "inputs"
  bool by_name = false;
  bool turns = false;
  size_t profile = 0;
  int64_t length = 128, rows = 1, accumulation = 1, steps = 5, rank = 8;
};

int64_t calls = 0, depth = 0;
std::map<std::string, int64_t> calls_by_name;

// Counts the ATen calls that no other ATen call makes, of this thread and of
// autograd's.
class CallCounter {
 public:
  CallCounter() {
    calls = depth = 0;
    calls_by_name.clear();
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction& function)
                -> std::unique_ptr<at::ObserverContext> {
              if (depth++ > 0) return nullptr;
              ++calls;
              ++calls_by_name[function.name()];
              return nullptr;
            },
            [](const at::RecordFunction&, at::ObserverContext*) { --depth; })
            .scopes({at::RecordScope::FUNCTION}));
  }
  ~CallCounter() { at::removeCallback(handle_); }

 private:
  at::CallbackHandle handle_;
};

struct MicroBatch {
  model::DecoderInputs inputs;
  model::LabelSelection labels;
};

MicroBatch RandomBatch(const Arguments& a, int64_t vocab, at::Device device) {
  MicroBatch b;
  const at::Tensor ids = at::randint(vocab, {a.rows, a.length}, at::kLong);
  b.inputs.input_ids = ids.to(device);
  b.inputs.position_ids =
      at::arange(a.length).expand({a.rows, a.length}).contiguous().to(device);
  const at::Tensor at = at::arange(a.rows * a.length).view({a.rows, a.length});
  const at::Tensor rows = at.narrow(1, 0, a.length - 1).flatten();
  b.labels.targets = ids.narrow(1, 1, a.length - 1).flatten().to(device);
  b.labels.rows = rows.to(device);
  b.labels.count = rows.numel();
  return b;
}

class Bench {
 public:
  explicit Bench(const Arguments& a) : a_(a) {}

  absl::Status Setup() {
    auto opened = a_.device == "cuda"  ? device::OpenCuda()
                  : a_.device == "mps" ? device::OpenMps()
                                       : device::OpenCpu();
    if (!opened.ok()) return opened.status();
    device_ = *std::move(opened);
    device_->Seed(1);
    auto config = ConfigOf(a_.shape);
    if (!config.ok()) return config.status();
    dtype_ = a_.dtype == "bf16" ? at::kBFloat16 : at::kFloat;
    model::WeightSource source;
    source.device = device_->torch_device();
    source.dtype = dtype_;
    source.draw_on_device = true;
    auto decoder = model::Decoder::Load(source, *config);
    if (!decoder.ok()) return decoder.status();
    decoder_ = *std::move(decoder);
    return AttachAdapter();
  }

  nlohmann::json Run() {
    std::vector<double> times;
    device::Memory steady;
    for (int64_t i = 0; i < a_.steps + 3; ++i) {
      // The peak of loading is not the step's.
      if (i == 1) device_->ResetPeak();
      if (i == 3) steady = device_->GetMemory();
      if (a_.turns) WaitForTurn();
      const double seconds = TimedStep();
      if (i >= 3) times.push_back(seconds);
    }
    const std::vector<double> in_order = times;
    int64_t ops = 0;
    {
      const CallCounter counter;
      TimedStep();
      ops = calls;
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    const device::Memory memory = device_->GetMemory();
    const double tokens =
        static_cast<double>(a_.rows * a_.accumulation * a_.length);
    nlohmann::json result = {
        {"peer", "mpsd-" + a_.path},
        {"shape", a_.shape},
        {"dtype", a_.dtype},
        {"seq", a_.length},
        {"mb", a_.rows},
        {"accum", a_.accumulation},
        {"targets", a_.targets},
        {"kernels", a_.kernels},
        {"checkpointing", a_.checkpointing},
        {"step_s", median},
        {"min_s", times.front()},
        {"tok_s", std::llround(tokens / median)},
        {"aten_calls", ops},
        {"loss", loss_},
        {"peak_alloc_gib",
         double(memory.peak_allocated.value_or(0)) / (1 << 30)}};
    // What the allocator took, and what lives, since the third step.
    if (memory.driver_allocated && steady.driver_allocated) {
      result["grown_bytes"] = {
          *memory.driver_allocated - *steady.driver_allocated,
          memory.current_allocated.value_or(0) -
              steady.current_allocated.value_or(0)};
    }
    if (a_.turns) result["times"] = in_order;
    if (a_.by_name) result["calls_by_name"] = calls_by_name;
    if (a_.profile > 0) {
      result["profile"] = ProfileOf([this] { TimedStep(); }, a_.profile);
    }
    return result;
  }

 private:
  // So that who compares can let one of several run at a time.
  static void WaitForTurn() {
    std::puts("ready");
    std::fflush(stdout);
    while (std::getchar() != '\n' && !std::feof(stdin)) {
    }
  }

  absl::Status AttachAdapter() {
    spec::LoraSpec lora;
    lora.r = a_.rank;
    lora.lora_alpha = 16;
    if (a_.targets == "all") {
      lora.target_modules = spec::LoraSpec::AllLinear{};
    } else {
      lora.target_modules = std::vector<std::string>{"q_proj", "v_proj"};
    }
    auto adapter =
        lora::Adapter::Attach(*decoder_, lora, device_->torch_device());
    if (!adapter.ok()) return adapter.status();
    adapter_ = *std::move(adapter);
    adapter_->set_training(true);
    training_.learning_rate = 2e-4;
    optimizer_ =
        std::make_unique<optim::AdamW>(adapter_->parameters(), training_);
    model::RunOptions run;
    if (a_.checkpointing == "inputs") run.recompute = spec::Recompute::kFull;
    if (a_.kernels == "mps") run.attention = attention::AttentionKernel::kTiled;
    decoder_->set_options(run);
    device_->BeginSteps();
    return a_.path == "explicit" ? MakeExplicitStep() : absl::OkStatus();
  }

  absl::Status MakeExplicitStep() {
    explicit_step::Options options;
    options.dtype = dtype_;
    options.traits = a_.kernels == "mps"
                         ? backend::TraitsOf(backend::Choice::kMps)
                         : device_->traits();
    if (a_.checkpointing == "selective") {
      options.recompute = spec::Recompute::kSelective;
    }
    if (a_.checkpointing == "inputs") {
      options.recompute = spec::Recompute::kFull;
    }
    auto step = explicit_step::ExplicitStep::Create(
        *decoder_, adapter_->parameters(), options);
    if (!step.ok()) return step.status();
    fast_ = *std::move(step);
    return absl::OkStatus();
  }

  at::Tensor Gradients(const std::vector<MicroBatch>& batches) {
    double total = 0;
    for (const MicroBatch& b : batches) total += b.labels.count;
    at::Tensor loss =
        at::zeros({}, at::device(device_->torch_device()).dtype(at::kFloat));
    if (fast_) fast_->Begin();
    if (!fast_) adapter_->parameters().ZeroGradients();
    for (const MicroBatch& b : batches) {
      if (fast_) {
        loss.add_(fast_->Add(b.inputs, b.labels, 1 / total));
        continue;
      }
      const at::Tensor part = model::SumCrossEntropy(
          decoder_->Hidden(b.inputs), decoder_->head(), b.labels);
      (part * (1 / total)).backward();
      loss.add_(part.detach());
    }
    if (fast_) fast_->End();
    return loss.div_(total);
  }

  double TimedStep() {
    std::vector<MicroBatch> batches;
    for (int64_t i = 0; i < a_.accumulation; ++i) {
      batches.push_back(RandomBatch(a_, decoder_->config().vocab_size,
                                    device_->torch_device()));
    }
    device_->Synchronize();
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor loss = Gradients(batches);
    {
      const at::NoGradGuard no_grad;
      optimizer_->Clip(optimizer_->GradientNorm(), training_.max_grad_norm);
      optimizer_->Step(training_.learning_rate);
    }
    loss_ = loss.item<double>();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  }

  const Arguments a_;
  at::ScalarType dtype_ = at::kFloat;
  spec::TrainingSpec training_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<model::Decoder> decoder_;
  std::unique_ptr<lora::Adapter> adapter_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<explicit_step::ExplicitStep> fast_;
  double loss_ = 0;
};

int Main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Times optimizer steps of LoRA on random weights.");
  app.add_option("--shape", a.shape, "llama7b, qwen0.5b, smol135m or tiny");
  app.add_option("--dtype", a.dtype)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--device", a.device)
      ->check(CLI::IsMember({"cpu", "cuda", "mps"}));
  app.add_option("--targets", a.targets)->check(CLI::IsMember({"qv", "all"}));
  app.add_option("--path", a.path)
      ->check(CLI::IsMember({"explicit", "autograd"}));
  app.add_option("--kernels", a.kernels, "mps: the kernels that MPS gets")
      ->check(CLI::IsMember({"", "mps"}));
  app.add_option("--checkpointing", a.checkpointing)
      ->check(CLI::IsMember({"none", "selective", "inputs"}));
  app.add_flag("--calls", a.by_name, "ATen calls of a step by name");
  app.add_option("--profile", a.profile,
                 "where the time of a step goes: as many kernels, by cost");
  app.add_flag("--turns", a.turns,
               "says \"ready\" before each step and waits for a line");
  app.add_option("--seq", a.length);
  app.add_option("--mb", a.rows);
  app.add_option("--accum", a.accumulation);
  app.add_option("--steps", a.steps);
  app.add_option("--rank", a.rank);
  CLI11_PARSE(app, argc, argv);
  Bench bench(a);
  if (absl::Status s = bench.Setup(); !s.ok()) {
    std::fprintf(stderr, "%s\n", std::string(s.message()).c_str());
    return 1;
  }
  std::printf("%s\n", bench.Run().dump().c_str());
  return 0;
}

}  // namespace
}  // namespace mpsd::bench

int main(int argc, char** argv) { return mpsd::bench::Main(argc, argv); }
