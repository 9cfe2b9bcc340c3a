// SPDX-License-Identifier: Apache-2.0
#include "core/train/micro_batch_trial.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/device/step_scope.h"
#include "core/host/platform.h"

namespace mpsd::train {
namespace {

// The share of the device's recommended memory, or of the machine's, that may
// be used. The rest is left to memory that is not counted.
constexpr double kUsable = 0.9;
// A short trial is repeated until the runs took kEnoughSeconds together, but at
// most kMaxRepeats times: one short run alone is too noisy.
constexpr double kEnoughSeconds = 0.2;
constexpr int kMaxRepeats = 3;

double Now() { return absl::ToDoubleSeconds(base::Clock::Real().Monotonic()); }

}  // namespace

MicroBatchTrials::MicroBatchTrials(
    const TrainingSubject& subject, Stepper& stepper,
    const data::Source& source, data::LoaderOptions options,
    std::function<int64_t(const MicroBatch&)> estimate, Attempt attempt)
    : subject_(subject),
      stepper_(stepper),
      source_(source),
      options_(options),
      estimate_(std::move(estimate)),
      attempt_(std::move(attempt)),
      network_options_(subject.network.options()),
      cpu_generator_(device::CpuRngState()),
      device_generator_(subject.device.RngState()),
      resident_bytes_(HeldBytes()) {}

MicroBatchTrials::~MicroBatchTrials() {
  subject_.trainable.parameters().ZeroGradients();
  subject_.network.set_options(network_options_);
  subject_.device.EmptyCache();
  subject_.device.SetRngState(device_generator_);
  device::SetCpuRngState(cpu_generator_);
}

int64_t MicroBatchTrials::limit_bytes() const {
  const auto recommended = subject_.device.GetMemory().recommended_max;
  const int64_t all = recommended.value_or(host::PhysicalMemoryBytes());
  return static_cast<int64_t>(kUsable * static_cast<double>(all));
}

int64_t MicroBatchTrials::HeldBytes() const {
  const device::Memory memory = subject_.device.GetMemory();
  if (memory.driver_allocated) return *memory.driver_allocated;
  return memory.current_allocated.value_or(host::ProcessFootprintBytes());
}

// The batch to measure. Packed rows are all about equally long, so the first
// step's are used. Otherwise the longest samples of the data set, so that no
// batch of training needs more than the trial.
absl::StatusOr<data::Batch> MicroBatchTrials::LongestRows(int64_t rows) const {
  if (options_.packing) {
    data::LoaderOptions options = options_;
    options.batch_size = rows;
    options.gradient_accumulation_steps = 1;
    ASSIGN_OR_RETURN(auto step, data::Loader(source_, options).NextStep());
    base::Check(!step.empty(), "a step has micro-batches");
    return std::move(step.front());
  }
  base::CheckLess(0, source_.size(), "samples to be tried");
  std::vector<int64_t> order(static_cast<size_t>(source_.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](int64_t a, int64_t b) {
    return source_.length(a) > source_.length(b);
  });
  std::vector<std::vector<int64_t>> chosen;
  for (int64_t i = 0; i < rows; ++i) {
    chosen.push_back({order[i % source_.size()]});
  }
  return source_.Collate(
      chosen,
      {.training = true, .seed = options_.seed, .padding = options_.padding});
}

double MicroBatchTrials::SecondsOf(const std::vector<data::Batch>& batches) {
  const device::StepScope scope;
  const double start = Now();
  stepper_.AccumulateGradients(batches);
  subject_.device.Synchronize();
  return Now() - start;
}

void MicroBatchTrials::Run(const std::vector<data::Batch>& batches,
                           int64_t batch, MicroBatchTrial& trial) {
  SecondsOf(batches);  // not measured: the first run compiles and allocates
  const auto peak = subject_.device.GetMemory().peak_allocated;
  const int64_t held = HeldBytes();
  double seconds = SecondsOf(batches);
  double all = seconds;
  for (int i = 1; i < kMaxRepeats && all < kEnoughSeconds; ++i) {
    const double again = SecondsOf(batches);
    seconds = std::min(seconds, again);
    all += again;
  }
  trial.step_seconds = seconds * static_cast<double>(batch) /
                       static_cast<double>(trial.choice.rows);
  // Without a peak counter the memory held after a run is used, which misses
  // what was freed during it: never less than the estimate.
  trial.peak_bytes = peak ? *peak : std::max(held, estimate_(trial.choice));
}

absl::StatusOr<MicroBatchTrial> MicroBatchTrials::Measure(
    const MicroBatch& choice, int64_t batch) {
  model::RunOptions options = network_options_;
  options.recompute = choice.recompute;
  subject_.network.set_options(options);
  ASSIGN_OR_RETURN(auto rows, LongestRows(choice.rows));
  const std::vector<data::Batch> batches = {std::move(rows)};
  subject_.device.EmptyCache();
  subject_.device.ResetPeak();
  MicroBatchTrial trial{choice};
  const auto run = [&] { Run(batches, batch, trial); };
  absl::Status ran;
  if (attempt_) {
    ran = attempt_(run);
  } else {
    run();
  }
  if (!absl::IsResourceExhausted(ran)) {
    if (!ran.ok()) return ran;
    return trial;
  }
  // What the failed trial queued must end before its memory is free for the
  // next one.
  subject_.device.Synchronize();
  subject_.trainable.parameters().ZeroGradients();
  subject_.device.EmptyCache();
  trial.out_of_memory = true;
  trial.step_seconds = 0;
  trial.peak_bytes =
      std::max(subject_.device.GetMemory().peak_allocated.value_or(0),
               estimate_(choice));
  return trial;
}

}  // namespace mpsd::train
