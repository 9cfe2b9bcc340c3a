// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_WHEN_H_
#define MPSD_CLIENT_TEXT_WHEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::client {

// A time in the past as people write one: "2w", "7d", "12h" or "30m" before
// `now`, or a date, with or without a time of day, in `zone`. InvalidArgument,
// without the name of an option, for other text.
absl::StatusOr<absl::Time> ParseWhen(const std::string& text, absl::Time now,
                                     absl::TimeZone zone);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_WHEN_H_
