// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/loader.h"
#include "core/report/runbook.h"
#include "core/study/measured_run.h"
#include "core/study/study.h"

namespace mpsd::study {

// Step times of one device.
struct DeviceFigures {
  std::string device;          // "cpu", "cuda", "mps"
  double step_seconds = 0;     // the median
  double step_error = 0;       // its standard error
  double data_wait_ratio = 0;  // the part of it spent waiting for batches
  double loader_seconds = 0;   // making a step's batches alone, the median
  std::optional<double> utilization_ratio = {};
};

// DeviceDecision of proto/mpsd/v1/device_comparison.proto.
enum class DeviceDecision { kUnknown, kGo, kFixData, kStay };
const char* NameOf(DeviceDecision decision);  // "DEVICE_DECISION_GO" …

struct DeviceVerdict {
  DeviceDecision decision = DeviceDecision::kGo;
  // The parts by which a step of `measured` is shorter: as measured, and
  // without the waits for batches on both sides.
  double speedup = 0, compute_speedup = 0;
  double speedup_error = 0;  // the standard error of `speedup`
  std::string reason;        // human-readable
  std::vector<runbook::Finding> findings;
};

// Whether a job should run on `measured` rather than on `baseline`.
//
//   unknown    the step times vary so much that two standard errors reach from
//              the speedup to compare.speedup.
//   go         the step is shorter by compare.speedup or more.
//   fix data   it is not, and the device is busy for less than
//              compare.gpu_utilization of the time. If the utilisation is
//              unknown: it is not, but would be without waiting for batches.
//   stay       neither: the device works, and gains too little.
DeviceVerdict DecideDevice(const DeviceFigures& baseline,
                           const DeviceFigures& measured,
                           const runbook::Thresholds& thresholds);

// What the steps of one device computed.
struct DeviceNumbers {
  std::string dtype;                       // "fp32", "bf16"
  std::vector<double> losses, grad_norms;  // of each step, from the first
  std::string metric;  // of the evaluation after the last step; "": none
  double metric_value = 0;
};

// A step that both devices completed.
struct StepNumbers {
  double baseline_loss = 0, loss = 0;
  double difference = 0;  // RelativeDifference
  double baseline_grad_norm = 0, grad_norm = 0;
};

struct NumbersVerdict {
  std::string dtype;  // whose tolerances apply
  std::vector<StepNumbers> steps;
  bool metric_compared = false;
  std::vector<runbook::Finding> findings;
};

// Whether both devices compute the same: the losses of their steps, the norm of
// the first gradient, and the metric after the last step, each within its
// tolerance compare.<what>_<dtype>.
NumbersVerdict CompareNumbers(const DeviceNumbers& baseline,
                              const DeviceNumbers& measured,
                              const runbook::Thresholds& thresholds);

// Relative to the larger; 0 for two zeros, 1 if either is not finite.
double RelativeDifference(double a, double b);

// The seconds that a training's data take without its steps, each of the second
// `steps` steps: images of the first may be decoded and cached already. Calls
// `go_on` before each step; false: Cancelled. Other errors are the source's.
absl::StatusOr<std::vector<double>> TimeLoader(
    const data::Source& source, const data::LoaderOptions& options,
    int64_t steps, const std::function<bool()>& go_on);

// The measurements of one device.
struct DeviceSide {
  Measurement steps;
  std::vector<double> loader_seconds;  // TimeLoader's
  std::string data;                    // the digest of what both train on
  std::string gradients;               // "explicit", "autograd …"
  DeviceNumbers numbers;
};
DeviceFigures FiguresOf(const DeviceSide& side);

// The result for two sides.
Found TellDevices(const DeviceSide& baseline, const DeviceSide& measured,
                  int64_t warmup_steps, const runbook::Thresholds& thresholds);

}  // namespace mpsd::study
