// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/host/traits.h"
#include "core/plan/epoch.h"
#include "core/plan/facts.h"
#include "core/plan/step_cost.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

// How long steps take: by a chip's data sheet, by earlier runs, by a probe.
namespace mpsd::plan {

// A chip's data-sheet figures, and the shares of them that training attains.
struct Chip {
  const char* name;   // as the system reports it: "Apple M2 Max", "NVIDIA H200"
  int64_t gpu_cores;  // 0: the name alone identifies the chip
  // Peaks: 10^12 operations per second of fp32 and bf16, 10^9 bytes per second
  // of memory.
  double fp32_tera, half_tera;
  double giga_bytes;
  const char* memory;  // the sizes it is sold with, GB
  // Shares of the peaks: a large matrix product in fp32 and in bf16, and a pass
  // over memory.
  double fp32_share, half_share, bytes_share;
  const char* source;
};

// The table: Apple's M1 to M4 by name and GPU cores, then NVIDIA's.
std::span<const Chip> Chips();

// The chip of this name with this many GPU cores; if the cores are unknown (0)
// or not in the table, the one of this name with the fewest. Null if the table
// lacks the name. A card's name may continue with its memory ("NVIDIA H100 80GB
// HBM3").
const Chip* FindChip(std::string_view name, int64_t gpu_cores);

// The rates that training attains on the chip.
Rates RatesOf(const Chip& chip);

// Seconds that `cost` takes at `rates`, which are positive. Products take the
// longer of their operations and their bytes; everything else its bytes, one
// after the other. If the host's calls take longer than all of it, the host
// decides. Fused attention attains 0.4 of the products' rate (28 ms of a 7B's
// step on an H200, tests/bench/README.md); blocked attention consists of
// products.
double RooflineSeconds(const StepCost& cost, const Rates& rates, bool half,
                       const backend::Traits& traits);

// The source of a time, as PlanSource of proto/mpsd/v1/plan.proto.
enum class TimeSource { kUnknown, kRoofline, kHistory, kProbe };

// "PLAN_SOURCE_ROOFLINE" …, as in the API's JSON.
const char* NameOf(TimeSource source);

// Estimates the step times of the job and of jobs that differ from it.
class StepTimes {
 public:
  // Properties of a mean step of the job.
  struct Job {
    const spec::TrainSpec& spec;  // with its micro-batch
    const spec::ModelConfig& model;
    const backend::Traits& traits;
    const Epoch& epoch;
    int64_t longest_row;  // tokens, with padding
    // Labels per token without padding, 0 to 1.
    double label_share;
  };

  // A probe takes precedence over the history, and the history over the
  // roofline. `rates`: the device's; null: unknown. `job` and `rates` must
  // outlive this object.
  StepTimes(const Job& job, const Rates* rates, const Facts& facts);

  TimeSource source() const { return source_; }
  // The mean step of the job's epoch.
  const StepCost& cost() const { return cost_; }
  // By the roofline alone, independent of source().
  std::optional<double> roofline_seconds() const;
  // Seconds of a whole epoch of `spec`, which may differ from the job in its
  // micro-batch, recomputation, lengths and sampling; nullopt if no time is
  // known.
  std::optional<double> Seconds(const spec::TrainSpec& spec,
                                const Epoch& epoch) const;
  // Seconds of a pass over `epoch` without gradients.
  std::optional<double> EvaluationSeconds(const Epoch& epoch) const;

 private:
  // What the times are proportional to: seconds of the roofline, or operations
  // if no rates are known.
  double Amount(const StepCost& cost, bool half) const;
  double AmountOf(const spec::TrainSpec& spec, const Epoch& epoch) const;

  const Job job_;
  const Rates* const rates_;
  StepCost cost_;
  TimeSource source_ = TimeSource::kUnknown;
  double factor_ = 1;  // seconds per unit of Amount
};

}  // namespace mpsd::plan
