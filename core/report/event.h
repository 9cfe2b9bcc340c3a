// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_EVENT_H_
#define MPSD_CORE_REPORT_EVENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

// TensorBoard's event files: TFRecords of the message tensorflow.Event. The few
// fields that curves need are written by hand, because a worker links no
// protobuf (torch has its own symbols).
namespace mpsd::tensorboard {

// Tag and value; TensorBoard groups curves by the tag up to its slash.
using Scalars = std::vector<std::pair<std::string, double>>;

// The first event of a file: declares the format.
std::string VersionEvent(absl::Time time);
// Makes readers forget earlier events of `step` and later: after a restart a
// run resumes at an earlier step.
std::string RestartEvent(absl::Time time, int64_t step);
// Values of one step, stored as 32-bit floats.
std::string ScalarsEvent(absl::Time time, int64_t step, const Scalars& scalars);

// An event as a file has it: length and event, each with a checksum.
std::string RecordOf(std::string_view event);

}  // namespace mpsd::tensorboard

#endif  // MPSD_CORE_REPORT_EVENT_H_
