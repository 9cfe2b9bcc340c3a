// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_HOLD_H_
#define MPSD_SERVER_JOBS_HOLD_H_

#include <map>
#include <string>
#include <string_view>

#include "core/report/report.h"

namespace mpsd::jobs {

// Why no queued job starts though none trains, the gravest reason first.
enum class HoldReason {
  kStorage,  // the queue cannot be written
  kDisk,     // less is free than mpsd was told to leave
  kMachine,  // the machine's fault ended the last attempt
  kDevice,   // the self-test failed, or an earlier daemon's worker has it
  kDrained,  // an admin said so: JobManager::DrainQueue
};
// The names are the labels of metrics.
inline constexpr report::EnumName<HoldReason> kHoldReasons[] = {
    {HoldReason::kStorage, "storage"},
    {HoldReason::kDisk, "disk"},
    {HoldReason::kMachine, "machine"},
    {HoldReason::kDevice, "device"},
    {HoldReason::kDrained, "drained"}};
inline constexpr auto kAllHoldReasons = report::ValuesOf(kHoldReasons);
constexpr std::string_view Name(HoldReason reason) {
  return report::NameIn(kHoldReasons, reason);
}

// Each reason with its text for people.
using Holds = std::map<HoldReason, std::string>;

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_HOLD_H_
