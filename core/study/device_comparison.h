// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_DEVICE_COMPARISON_H_
#define MPSD_CORE_STUDY_DEVICE_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/study/device_verdict.h"
#include "core/study/loader_times.h"
#include "core/study/measured_run.h"
#include "core/study/study.h"

namespace mpsd::study {

// Whether a job should run on the accelerator, and whether it computes what the
// CPU does: the study of DeviceComparisonOptions in
// proto/mpsd/v1/device_comparison.proto. Both devices take the same samples in
// the same micro-batches, without dropout (each draws other masks), one device
// after the other; then they evaluate. The loader is also measured alone.
//
// FailedPrecondition if a device is missing. A device that runs out of memory
// ends the study as it ends a training.
absl::StatusOr<Found> CompareDevices(const Study& study);

// The measurements of one device.
struct DeviceSide {
  Measurement steps;
  LoaderTimes loader;
  std::string gradients;  // "explicit", "autograd …"
  DeviceNumbers numbers;
};
DeviceFigures FiguresOf(const DeviceSide& side);

// The result for two sides.
Found TellDevices(const DeviceSide& baseline, const DeviceSide& measured,
                  int64_t warmup_steps, const runbook::Thresholds& thresholds);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_DEVICE_COMPARISON_H_
