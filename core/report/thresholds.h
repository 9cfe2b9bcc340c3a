// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_THRESHOLDS_H_
#define MPSD_CORE_REPORT_THRESHOLDS_H_

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::runbook {

// A figure that a finding is compared with, and its source.
struct Threshold {
  const char* name;  // as users set it: "compare.speedup"
  double value;
  const char* unit;  // "ratio", "bytes", "s", "steps" …
  const char* source;
  // Its bounds, finite numbers; `whole`: without a fraction.
  double least = 0;
  double most = std::numeric_limits<double>::max();
  bool whole = false;
};

// The table of thresholds, in order of their names. Ratios are 0 to 1 unless
// the source says otherwise. "runbook" is the field's own runbook for MPS
// ("Three quotable thresholds for design reviews", "Reading torch.profiler");
// "mpsd" is our choice, with its reason.
inline constexpr Threshold kThresholds[] = {
    {"compare.gpu_utilization", 0.18, "ratio",
     "runbook: below it, with too small a gain, the data plane is at fault"},
    {"compare.gradient_bf16", 0.25, "ratio",
     "mpsd: the self-test's tolerance of a whole network in bf16"},
    {"compare.gradient_fp32", 2e-4, "ratio",
     "mpsd: the self-test's tolerance of a whole network; gradients of SmolLM2 "
     "are 2e-5 from those in double precision"},
    {"compare.loss_bf16", 0.5, "ratio",
     "mpsd: losses in bf16 are 15 % from those in fp32 on average, PEFT's too, "
     "at most 0.35 in SmolLM2's first steps: gradient and metric decide"},
    {"compare.loss_fp32", 5e-4, "ratio",
     "mpsd: 200 losses are within 2.3e-4 of PEFT's on one device; devices sum "
     "in other orders"},
    {"compare.metric_bf16", 0.02, "ratio",
     "runbook: a tolerance on the validation metric; the figure is mpsd's"},
    {"compare.metric_fp32", 5e-3, "ratio",
     "runbook: a tolerance on the validation metric; the figure is mpsd's"},
    {"compare.speedup", 0.22, "ratio",
     "runbook: the part by which a step has to be shorter than the CPU's"},
    {"doctor.certificate", 14, "days",
     "mpsd: the daemon's log warns this long before its certificate expires"},
    {"doctor.clock_skew", 2, "s", "mpsd: for comparing logs of two machines"},
    {"doctor.descriptors", 4096, "descriptors",
     "mpsd: a worker's limit (core/worker/cell.h)"},
    {"doctor.disk_free", 20e9, "bytes",
     "mpsd: the checkpoints and the result of one 7B LoRA job, and its data"},
    {"doctor.disk_speed", 100e6, "bytes/s",
     "mpsd: below it, a 7B model takes more than two minutes to load"},
    {"doctor.gpu_busy", 0.1, "ratio",
     "mpsd: a display takes less; a tenth of a step's time is lost"},
    {"doctor.process_memory", 0.1, "ratio",
     "mpsd: of the machine's; programs with more are named"},
    {"doctor.processes", 1024, "processes",
     "mpsd: torch, its OpenMP and mpsd start some hundred threads"},
    {"doctor.round_trip", 0.25, "s",
     "mpsd: above it, uploads of many small files take minutes"},
    {"doctor.selftest_age", 30, "days",
     "mpsd: a newer fault of the driver would be missed"},
    {"doctor.swap", 0.1, "ratio",
     "mpsd: of the machine's memory; steps wait for the disk"},
    {"doctor.wired_limit", 0.9, "ratio",
     "mpsd: of the machine's memory; the system needs the rest itself"},
    {"plan.cut_rows", 0.05, "ratio",
     "mpsd: more cut rows than one in twenty are not outliers"},
    {"plan.disk", 1, "ratio",
     "mpsd: of the free space, from which mpsd's own reserve is taken off"},
    {"plan.dropped_rows", 0.05, "ratio",
     "mpsd: more rows without labels than one in twenty are a mistake"},
    {"plan.memory", 0.9, "ratio",
     "mpsd: of the device's memory limit; silent failures begin above it"},
    {"plan.padding", 0.3, "ratio",
     "mpsd: padding of a third costs half as much time again; packing has 2 %"},
    {"probe.estimate_error", 0.1, "ratio",
     "mpsd: the estimate is tested to be within a tenth of measured peaks"},
    {"probe.memory_share", 0.9, "ratio",
     "mpsd: of what the device recommends; the rest is uncounted memory"},
    {"profile.blocking_copies", 0, "calls a step",
     "mpsd: a step reads back once, at its end; each further wait empties the "
     "device's queue"},
    {"profile.data_share", 0.2, "ratio",
     "mpsd: a fifth of a step is worth fixing before the model"},
    {"profile.fallback_operators", 0, "operators",
     "runbook: hotspots that stay on fallback are named"},
    {"profile.steps", 50, "steps", "runbook: a narrow slice after warm-up", 1,
     1000, true},
    {"smoke.epochs", 10, "epochs", "runbook: memory is compared over ten", 2,
     1000, true},
    {"smoke.memory_growth", 0.26, "ratio",
     "runbook: unified memory, last epoch against the first"},
    {"smoke.memory_slope", 0.02, "ratio",
     "mpsd: of the first epoch's memory; fifty such epochs double it"},
    {"smoke.overhead_growth", 0.1, "ratio",
     "mpsd: driver's beyond live tensors, of the recommended memory, as the "
     "trainer's own warning"},
    {"smoke.swap_growth", 268435456, "bytes",
     "mpsd: a machine that swaps trains at its disk's speed"},
    {"sweep.knee", 0.05, "ratio",
     "mpsd: a gain of less than a twentieth is within short runs' noise"},
    {"sweep.memory_share", 0.9, "ratio",
     "mpsd: of what the device recommends; the rest is uncounted memory"},
};

// The thresholds of one request: the table's, with the request's changes.
class Thresholds {
 public:
  Thresholds() = default;
  // InvalidArgument for more than limits::kThresholds, for a name that the
  // table lacks, and for a value out of the threshold's bounds.
  static absl::StatusOr<Thresholds> FromMap(
      const std::map<std::string, double>& values);
  static absl::StatusOr<Thresholds> FromJson(const nlohmann::json& values);

  // Aborts unless `name` is one of kThresholds.
  double Get(std::string_view name) const;

 private:
  std::map<std::string, double, std::less<>> set_;
};

}  // namespace mpsd::runbook

#endif  // MPSD_CORE_REPORT_THRESHOLDS_H_
