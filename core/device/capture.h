// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_CAPTURE_H_
#define MPSD_CORE_DEVICE_CAPTURE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mpsd::profile {

// How the names of marks begin, and how they end for work outside the forward
// (block_mark.h).
inline constexpr char kMarkPrefix[] = "mpsd::";
inline constexpr char kBackwardSuffix[] = " backward";
inline constexpr char kAgainSuffix[] = " again";

enum class EventKind : uint8_t {
  kOperator,  // a call of ATen
  kMark,      // a BlockMark
  kNode,      // a node of autograd's backward
  kRuntime,   // a call of the device's runtime
  kDevice,    // a kernel or a copy on the device
};

struct Event {
  EventKind kind = EventKind::kOperator;
  uint32_t name = 0;                 // index of Capture::names
  int64_t start_ns = 0, end_ns = 0;  // of one clock
  // The number of autograd's next node when the call began, or a node's own;
  // -1: none.
  int64_t sequence = -1;
  // A call's number, and on the device that of the call that queued the work;
  // 0: unknown.
  uint64_t call = 0;
};

// What was recorded of some steps, in any order. Host events are those of the
// training thread, and of autograd's threads while the training thread waits
// for them.
struct Capture {
  std::vector<std::string> names;
  std::vector<Event> events;
};

}  // namespace mpsd::profile

#endif  // MPSD_CORE_DEVICE_CAPTURE_H_
