// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_QUIET_HOURS_H_
#define MPSD_SERVER_JOBS_QUIET_HOURS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::jobs {

// The hours of a day in which nothing trains, by local wall-clock time.
struct QuietHours {
  int begin_minute = 0;  // minute of the day, 0..1439
  int end_minute = 0;    // exclusive; before `begin`: on the next day

  bool operator==(const QuietHours&) const = default;
};

// Parses "22:00-07:00". InvalidArgument for any other form, and for an empty
// span.
absl::StatusOr<QuietHours> ParseQuietHours(const std::string& text);

bool IsQuiet(const QuietHours& hours, absl::Time now, absl::TimeZone zone);

// "22:00-07:00".
std::string ToString(const QuietHours& hours);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_QUIET_HOURS_H_
