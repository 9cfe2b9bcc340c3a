// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// Bytes, spans and instants in the notation of users.
namespace mpsd::base {

// Human-readable bytes in the power of 1,024 that fits: "1.50 GiB", "340.0
// MiB", "-3.0 MiB", "1.2 KiB", "512 B".
std::string BytesText(double bytes);

// A number of bytes, such as "5000" or "20GiB"; nullopt for other text, powers
// of 1,000, negative numbers and more than 2^60.
std::optional<int64_t> ParseBytes(const std::string& text);

// A span, such as "12h", in one of the `units`, of which 's' is seconds, 'm'
// minutes, 'h' hours, 'd' days and 'w' weeks; infinite if it is too long for
// absl::Duration; nullopt for other text.
std::optional<absl::Duration> ParseSpan(const std::string& text,
                                        const std::string& units = "mhdw");

// A time in the past: a span of at most six digits before `now`, or a date,
// with or without a time of day, in `zone`. InvalidArgument, without the name
// of an option, for other text.
absl::StatusOr<absl::Time> ParseWhen(const std::string& text, absl::Time now,
                                     absl::TimeZone zone);

}  // namespace mpsd::base
