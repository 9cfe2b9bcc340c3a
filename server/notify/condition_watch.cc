// SPDX-License-Identifier: Apache-2.0
#include "server/notify/condition_watch.h"

#include <utility>

namespace mpsd::notify {

SettledCondition::Change SettledCondition::Observe(bool present,
                                                   absl::Duration now,
                                                   absl::Duration settle) {
  if (present != present_) since_ = now;
  present_ = present;
  if (present == reported_ || now - since_ < settle) return Change::kNone;
  reported_ = present;
  return present ? Change::kBegan : Change::kEnded;
}

std::vector<ConditionWatch::Change> ConditionWatch::Observe(
    const Observation& seen, const Limits& limits, absl::Duration now) {
  std::vector<Change> changes;
  for (jobs::HoldReason reason : jobs::kAllHoldReasons) {
    Hold& hold = holds_[reason];
    const auto found = seen.holds.find(reason);
    if (found != seen.holds.end()) hold.why = found->second;
    const auto change =
        hold.condition.Observe(found != seen.holds.end(), now, limits.settle);
    if (change == SettledCondition::Change::kNone) continue;
    const bool began = change == SettledCondition::Change::kBegan;
    changes.push_back({reason, began, began ? hold.why : "", 0});
  }
  if (!seen.free_bytes) return changes;
  const auto change = disk_.Observe(*seen.free_bytes < limits.low_disk_bytes,
                                    now, limits.settle);
  if (change != SettledCondition::Change::kNone) {
    changes.push_back({std::nullopt, change == SettledCondition::Change::kBegan,
                       "", *seen.free_bytes});
  }
  return changes;
}

}  // namespace mpsd::notify
