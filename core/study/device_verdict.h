// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_DEVICE_VERDICT_H_
#define MPSD_CORE_STUDY_DEVICE_VERDICT_H_

#include <optional>
#include <string>
#include <vector>

#include "core/report/finding.h"
#include "core/report/thresholds.h"

namespace mpsd::study {

// Step times of one device.
struct DeviceFigures {
  std::string device;          // "cpu", "cuda", "mps"
  double step_seconds = 0;     // the median
  double data_wait_ratio = 0;  // the part of it spent waiting for batches
  double loader_seconds = 0;   // making a step's batches alone, the median
  std::optional<double> utilization_ratio = {};
};

// DeviceDecision of proto/mpsd/v1/device_comparison.proto.
enum class DeviceDecision { kGo, kFixData, kStay };
const char* NameOf(DeviceDecision decision);  // "DEVICE_DECISION_GO" …

struct DeviceVerdict {
  DeviceDecision decision = DeviceDecision::kGo;
  // The parts by which a step of `measured` is shorter: as measured, and
  // without the waits for batches on both sides.
  double speedup = 0, compute_speedup = 0;
  std::string reason;  // human-readable
  std::vector<runbook::Finding> findings;
};

// Whether a job should run on `measured` rather than on `baseline`.
//
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

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_DEVICE_VERDICT_H_
