// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TENSORBOARD_EVENT_H_
#define MPSD_CORE_TENSORBOARD_EVENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

// TensorBoard's event files: TFRecords of the message tensorflow.Event. Only
// the few fields that curves need are written, by hand, because a worker links
// no protobuf (torch has symbols of its own).
namespace mpsd::tensorboard {

// Tag and value; TensorBoard groups curves by what stands before a tag's slash.
using Scalars = std::vector<std::pair<std::string, double>>;

// The first event of a file: says which format follows.
std::string VersionEvent(absl::Time time);
// Readers forget the events of `step` and later ones that they had before: a
// run goes on behind its step before, after a restart.
std::string RestartEvent(absl::Time time, int64_t step);
// Values of one step, stored as 32-bit floats.
std::string ScalarsEvent(absl::Time time, int64_t step, const Scalars& scalars);

// An event as a file has it: length and event, each with a checksum.
std::string RecordOf(std::string_view event);

}  // namespace mpsd::tensorboard

#endif  // MPSD_CORE_TENSORBOARD_EVENT_H_
