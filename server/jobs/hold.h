// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_HOLD_H_
#define MPSD_SERVER_JOBS_HOLD_H_

#include <map>
#include <string>
#include <string_view>

namespace mpsd::jobs {

// Why no queued job starts though none trains, the gravest reason first.
enum class HoldReason {
  kStorage,  // the queue cannot be written
  kDisk,     // less is free than mpsd was told to leave
  kMachine,  // the machine's fault ended the last attempt
  kDevice,   // the self-test failed, or an earlier daemon's worker has it
};
inline constexpr HoldReason kAllHoldReasons[] = {
    HoldReason::kStorage, HoldReason::kDisk, HoldReason::kMachine,
    HoldReason::kDevice};

// Each reason with its text for people.
using Holds = std::map<HoldReason, std::string>;

// "storage", "disk", "machine", "device": the label of metrics.
std::string_view Name(HoldReason reason);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_HOLD_H_
