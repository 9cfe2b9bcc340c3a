// SPDX-License-Identifier: Apache-2.0
#include "core/plan/step_time.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace mpsd::plan {
namespace {

// Apple publishes no rates. A GPU core of M1 to M4 has 128 fp32 units, each of
// one fused multiply-add per cycle; bf16 has the same rate (philipturner's
// Metal benchmarks). The product with the clock is 10.6 for an M1 Max; Apple's
// own figure of 10.4 is rounded.
constexpr double Tera(int64_t cores, double giga_hertz) {
  return static_cast<double>(cores) * 128 * 2 * giga_hertz / 1e3;
}

// GPU clocks; Apple publishes none.
constexpr double kM1 = 1.278, kM1Pro = 1.296, kM2 = 1.398, kM3 = 1.380;
constexpr double kM4 = 1.470, kM4Pro = 1.578;

// Shares of the peaks: an fp32 product by MPS has 1.36, 2.24, 2.47 and 2.9
// TFLOP/s on M1, M2, M3 and M4 (arXiv 2502.05317); 10.3 on an M3 Max of 40
// cores by torch. The same paper's STREAM has 0.83 to 0.92 of the bandwidth.
constexpr double kM1Share = 0.52, kM2Share = 0.63, kM3Share = 0.70;
constexpr double kM3MaxShare = 0.73, kM4Share = 0.77;
constexpr double kStream = 0.85;

constexpr char kM1Source[] =
    "bandwidth, memory: Apple newsroom 2020-11-10, 2021-10-18, 2022-03-08; "
    "rate: cores x 128 units x 2 x clock (1.278 GHz, Pro to Ultra 1.296 GHz, "
    "philipturner/applegpuinfo); part: MPS GEMM, arXiv 2502.05317";
constexpr char kM2Source[] =
    "bandwidth, memory: Apple newsroom 2022-06-06, 2023-01-17, 2023-06-05; "
    "rate: cores x 128 units x 2 x clock (1.398 GHz, "
    "philipturner/applegpuinfo); part: MPS GEMM, arXiv 2502.05317";
constexpr char kM3Source[] =
    "bandwidth, memory: Apple newsroom 2023-10-30, 2025-03-05; rate: cores x "
    "128 units x 2 x clock (1.380 GHz by powermetrics, "
    "philipturner/applegpuinfo); part: MPS GEMM, arXiv 2502.05317, and torch "
    "on an M3 Max, chsasank/device-benchmarks";
constexpr char kM4Source[] =
    "bandwidth, memory: Apple newsroom 2024-05-07, 2024-10-30; rate: cores x "
    "128 units x 2 x clock (1.470 GHz, arXiv 2502.05317; Pro and Max 1.578 "
    "GHz, third parties, who differ: 1.58 to 1.80); part: MPS GEMM, arXiv "
    "2502.05317";
constexpr char kHopperSource[] =
    "peaks: NVIDIA's data sheets of H100 and H200 (dense, SXM); parts: bf16 "
    "products 690 TFLOP/s "
    "on an H200 (tests/bench/README.md), the others by the same part";

constexpr Chip Apple(const char* name, int64_t cores, double giga_hertz,
                     double giga_bytes, const char* memory, double share,
                     const char* source) {
  const double tera = Tera(cores, giga_hertz);
  return {name,   cores, tera,  tera,    giga_bytes,
          memory, share, share, kStream, source};
}

constexpr Chip kChips[] = {
    Apple("Apple M1", 7, kM1, 68.25, "8 16", kM1Share, kM1Source),
    Apple("Apple M1", 8, kM1, 68.25, "8 16", kM1Share, kM1Source),
    Apple("Apple M1 Pro", 14, kM1Pro, 200, "16 32", kM1Share, kM1Source),
    Apple("Apple M1 Pro", 16, kM1Pro, 200, "16 32", kM1Share, kM1Source),
    Apple("Apple M1 Max", 24, kM1Pro, 400, "32 64", kM1Share, kM1Source),
    Apple("Apple M1 Max", 32, kM1Pro, 400, "32 64", kM1Share, kM1Source),
    Apple("Apple M1 Ultra", 48, kM1Pro, 800, "64 128", kM1Share, kM1Source),
    Apple("Apple M1 Ultra", 64, kM1Pro, 800, "64 128", kM1Share, kM1Source),
    Apple("Apple M2", 8, kM2, 100, "8 16 24", kM2Share, kM2Source),
    Apple("Apple M2", 10, kM2, 100, "8 16 24", kM2Share, kM2Source),
    Apple("Apple M2 Pro", 16, kM2, 200, "16 32", kM2Share, kM2Source),
    Apple("Apple M2 Pro", 19, kM2, 200, "16 32", kM2Share, kM2Source),
    Apple("Apple M2 Max", 30, kM2, 400, "32 64", kM2Share, kM2Source),
    Apple("Apple M2 Max", 38, kM2, 400, "32 64 96", kM2Share, kM2Source),
    Apple("Apple M2 Ultra", 60, kM2, 800, "64 128 192", kM2Share, kM2Source),
    Apple("Apple M2 Ultra", 76, kM2, 800, "64 128 192", kM2Share, kM2Source),
    Apple("Apple M3", 8, kM3, 100, "8 16 24", kM3Share, kM3Source),
    Apple("Apple M3", 10, kM3, 100, "8 16 24", kM3Share, kM3Source),
    Apple("Apple M3 Pro", 14, kM3, 150, "18 36", kM3Share, kM3Source),
    Apple("Apple M3 Pro", 18, kM3, 150, "18 36", kM3Share, kM3Source),
    Apple("Apple M3 Max", 30, kM3, 300, "36 96", kM3MaxShare, kM3Source),
    Apple("Apple M3 Max", 40, kM3, 400, "48 64 128", kM3MaxShare, kM3Source),
    Apple("Apple M3 Ultra", 60, kM3, 819, "96 256", kM3MaxShare, kM3Source),
    Apple("Apple M3 Ultra", 80, kM3, 819, "96 256 512", kM3MaxShare, kM3Source),
    Apple("Apple M4", 8, kM4, 120, "16 24 32", kM4Share, kM4Source),
    Apple("Apple M4", 10, kM4, 120, "16 24 32", kM4Share, kM4Source),
    Apple("Apple M4 Pro", 16, kM4Pro, 273, "24 48 64", kM4Share, kM4Source),
    Apple("Apple M4 Pro", 20, kM4Pro, 273, "24 48 64", kM4Share, kM4Source),
    Apple("Apple M4 Max", 32, kM4Pro, 410, "36", kM4Share, kM4Source),
    Apple("Apple M4 Max", 40, kM4Pro, 546, "48 64 128", kM4Share, kM4Source),
    {"NVIDIA H100", 0, 67, 989, 3350, "80", 0.70, 0.70, 0.85, kHopperSource},
    {"NVIDIA H200", 0, 67, 989, 4800, "141", 0.70, 0.70, 0.85, kHopperSource},
};

// The host's time per call, which bounds steps of many small products. 7 us on
// the H200's host (tests/bench/README.md); not measured on a Mac.
constexpr double kCallSeconds = 7e-6;

// "Apple M2" does not match "Apple M2 Max", nor "NVIDIA H100" the slower
// "NVIDIA H100 PCIe" or a part of a card ("... MIG 1g.10gb"). NVIDIA's names
// may continue with the memory.
bool Means(const Chip& chip, std::string_view name) {
  if (!name.starts_with(chip.name)) return false;
  name.remove_prefix(std::string_view(chip.name).size());
  while (chip.gpu_cores == 0 && name.starts_with(' ')) {
    name.remove_prefix(1);
    const size_t end = std::min(name.find(' '), name.size());
    const std::string_view word = name.substr(0, end);
    if (!word.ends_with("GB") && !word.starts_with("HBM")) return false;
    name.remove_prefix(end);
  }
  return name.empty();
}

}  // namespace

std::span<const Chip> Chips() { return kChips; }

const Chip* FindChip(std::string_view name, int64_t gpu_cores) {
  const Chip* fewest = nullptr;
  for (const Chip& chip : kChips) {
    if (!Means(chip, name)) continue;
    if (chip.gpu_cores == gpu_cores) return &chip;
    if (fewest == nullptr) fewest = &chip;
  }
  return fewest;
}

Rates RatesOf(const Chip& chip) {
  constexpr double kTera = 1e12, kGiga = 1e9;
  std::string name = chip.name;
  if (chip.gpu_cores > 0) {
    absl::StrAppend(&name, " (", chip.gpu_cores, " GPU cores)");
  }
  return {.fp32_operations = chip.fp32_tera * kTera * chip.fp32_share,
          .half_operations = chip.half_tera * kTera * chip.half_share,
          .bytes = chip.giga_bytes * kGiga * chip.bytes_share,
          .call_seconds = kCallSeconds,
          .source = absl::StrCat(name, "; ", chip.source)};
}

namespace {

constexpr double kFusedAttentionShare = 0.4;

}  // namespace

double RooflineSeconds(const StepCost& cost, const Rates& rates, bool half,
                       const backend::Traits& traits) {
  const double rate = half ? rates.half_operations : rates.fp32_operations;
  const double attention =
      traits.attends_fused() ? rate * kFusedAttentionShare : rate;
  const double device =
      std::max(cost.products / rate, cost.product_bytes / rates.bytes) +
      cost.attention / attention + cost.other_bytes / rates.bytes;
  return std::max(device, cost.calls * rates.call_seconds);
}

namespace {

// Labels per token of an epoch's micro-batches, padding included.
double LabelShare(const Epoch& epoch, double share) {
  return share * (1 - epoch.padding_share());
}

bool Usable(const Rates* rates, bool half) {
  return rates != nullptr && rates->bytes > 0 &&
         (half ? rates->half_operations : rates->fp32_operations) > 0;
}

}  // namespace

const char* NameOf(TimeSource source) {
  switch (source) {
    case TimeSource::kUnknown:
      break;
    case TimeSource::kRoofline:
      return "PLAN_SOURCE_ROOFLINE";
    case TimeSource::kHistory:
      return "PLAN_SOURCE_HISTORY";
    case TimeSource::kProbe:
      return "PLAN_SOURCE_PROBE";
  }
  return "PLAN_SOURCE_UNSPECIFIED";
}

StepTimes::StepTimes(const Job& job, const Rates* rates, const Facts& facts)
    : job_(job),
      rates_(Usable(rates, job.spec.training.bf16) ? rates : nullptr) {
  const StepCosts costs(job.spec, job.model, job.traits);
  const double share = LabelShare(job.epoch, job.label_share);
  for (const auto& [shape, count] : job.epoch.batches) {
    cost_ += costs.Train(shape, share) * static_cast<double>(count);
  }
  const auto steps = static_cast<double>(std::max<int64_t>(job.epoch.steps, 1));
  cost_ = cost_ * (1 / steps);
  cost_ += costs.Optimizer();
  const double mean = AmountOf(job.spec, job.epoch) / steps;
  if (facts.probe && facts.probe->step_seconds > 0) {
    // The probe used the longest rows: its step is not a mean one.
    const spec::TrainingSpec& t = job.spec.training;
    Epoch longest;
    longest.steps = 1;
    const int64_t length =
        job.model.family == spec::Family::kVision ? 1 : job.longest_row;
    const int64_t rows =
        t.per_device_train_batch_size * job.spec.preference.sequences();
    longest.batches[{rows, length}] = t.gradient_accumulation_steps;
    factor_ = facts.probe->step_seconds / AmountOf(job.spec, longest);
    source_ = TimeSource::kProbe;
    return;
  }
  if (facts.pace && facts.pace->runs > 0) {
    const double tokens = static_cast<double>(job.epoch.tokens) / steps;
    const bool by_tokens = facts.pace->tokens_per_second > 0 && tokens > 0;
    const double seconds = by_tokens ? tokens / facts.pace->tokens_per_second
                                     : facts.pace->step_seconds;
    if (seconds > 0) {
      factor_ = seconds / mean;
      source_ = TimeSource::kHistory;
      return;
    }
  }
  if (rates_ != nullptr) source_ = TimeSource::kRoofline;
}

double StepTimes::Amount(const StepCost& cost, bool half) const {
  if (rates_ == nullptr) return cost.operations();
  return RooflineSeconds(cost, *rates_, half, job_.traits);
}

double StepTimes::AmountOf(const spec::TrainSpec& spec,
                           const Epoch& epoch) const {
  const StepCosts costs(spec, job_.model, job_.traits);
  const bool half = spec.training.bf16;
  const double share = LabelShare(epoch, job_.label_share);
  double amount = 0;
  for (const auto& [shape, count] : epoch.batches) {
    amount +=
        Amount(costs.Train(shape, share), half) * static_cast<double>(count);
  }
  return amount +
         Amount(costs.Optimizer(), half) * static_cast<double>(epoch.steps);
}

std::optional<double> StepTimes::roofline_seconds() const {
  if (rates_ == nullptr) return std::nullopt;
  return AmountOf(job_.spec, job_.epoch) /
         static_cast<double>(std::max<int64_t>(job_.epoch.steps, 1));
}

std::optional<double> StepTimes::Seconds(const spec::TrainSpec& spec,
                                         const Epoch& epoch) const {
  if (source_ == TimeSource::kUnknown) return std::nullopt;
  return factor_ * AmountOf(spec, epoch);
}

std::optional<double> StepTimes::EvaluationSeconds(const Epoch& epoch) const {
  if (source_ == TimeSource::kUnknown) return std::nullopt;
  const StepCosts costs(job_.spec, job_.model, job_.traits);
  const double share = LabelShare(epoch, job_.label_share);
  double amount = 0;
  for (const auto& [shape, count] : epoch.batches) {
    amount += Amount(costs.Evaluate(shape, share), job_.spec.training.bf16) *
              static_cast<double>(count);
  }
  return factor_ * amount;
}

}  // namespace mpsd::plan
