// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_DEVICE_VERDICT_H_
#define MPSD_CORE_STUDY_DEVICE_VERDICT_H_

#include <optional>
#include <string>
#include <vector>

#include "core/runbook/finding.h"
#include "core/runbook/thresholds.h"

namespace mpsd::study {

// What the steps of one device took.
struct DeviceFigures {
  std::string device;          // "cpu", "cuda", "mps"
  double step_seconds = 0;     // the median
  double data_wait_ratio = 0;  // the part of it that waits for the batches
  double loader_seconds = 0;   // making a step's batches alone, the median
  std::optional<double> utilization_ratio = {};
};

// DeviceDecision of proto/mpsd/v1/device_comparison.proto.
enum class DeviceDecision { kGo, kFixData, kStay };
const char* NameOf(DeviceDecision decision);  // "DEVICE_DECISION_GO" …

struct DeviceVerdict {
  DeviceDecision decision = DeviceDecision::kGo;
  // The parts by which a step of `measured` is shorter: as it is, and without
  // the waits for batches on both sides.
  double speedup = 0, compute_speedup = 0;
  std::string reason;  // for people
  std::vector<runbook::Finding> findings;
};

// Whether a job should run on `measured` rather than on `baseline`.
//
//   go         the step is shorter by compare.speedup or more.
//   fix data   it is not, and the device is busy for less than
//              compare.gpu_utilization of the time. Where no utilisation is
//              told: it is not, and without the waits for batches it would be.
//   stay       neither: the device works, and gains too little.
DeviceVerdict DecideDevice(const DeviceFigures& baseline,
                           const DeviceFigures& measured,
                           const runbook::Thresholds& thresholds);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_DEVICE_VERDICT_H_
