// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_CONDITION_WATCH_H_
#define MPSD_SERVER_NOTIFY_CONDITION_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/jobs/pause_gate.h"

namespace mpsd::notify {

// A condition that is reported when it has lasted, and again when it has been
// over for as long: a fault that recurs with every attempt is reported once.
// Not thread-safe.
class SettledCondition {
 public:
  enum class Change { kNone, kBegan, kEnded };
  // `now`: monotonic.
  Change Observe(bool present, absl::Duration now, absl::Duration settle);

 private:
  bool reported_ = false;
  bool present_ = false;
  absl::Duration since_ = -absl::InfiniteDuration();  // present_'s last change
};

// Follows the queue's holds and the state folder's disk. Not thread-safe.
class ConditionWatch {
 public:
  struct Observation {
    jobs::Holds holds;
    std::optional<int64_t> free_bytes;  // nullopt: unknown
  };
  struct Limits {
    int64_t low_disk_bytes = 0;
    absl::Duration settle;
  };
  // What has to be reported now.
  struct Change {
    std::optional<jobs::HoldReason> hold;  // nullopt: the disk
    bool began = false;
    std::string why = {};  // a hold's text
    int64_t free_bytes = 0;
  };
  std::vector<Change> Observe(const Observation& seen, const Limits& limits,
                              absl::Duration now);

 private:
  struct Hold {
    SettledCondition condition;
    std::string why;
  };
  std::map<jobs::HoldReason, Hold> holds_;
  SettledCondition disk_;
};

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_CONDITION_WATCH_H_
