// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_HOLD_H_
#define MPSD_SERVER_JOBS_HOLD_H_

#include <map>
#include <string>
#include <string_view>

namespace mpsd::jobs {

// Why no queued job starts though none trains, gravest first.
enum class HoldReason {
  kStorage,  // the queue cannot be written
  kDisk,     // less is free than mpsd was told to leave
  kMachine,  // the machine's fault ended the last attempt
  kDevice,   // its self-test, a worker of an earlier daemon
};
inline constexpr HoldReason kAllHoldReasons[] = {
    HoldReason::kStorage, HoldReason::kDisk, HoldReason::kMachine,
    HoldReason::kDevice};

// Each with its text for people.
using Holds = std::map<HoldReason, std::string>;

// "storage", "disk", "machine", "device": the label of metrics.
std::string_view Name(HoldReason reason);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_HOLD_H_
