// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOKEN_EXPIRY_H_
#define MPSD_CLIENT_TOKEN_EXPIRY_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::client {

// When a token expires: "90d", "12h" or "2w" from `now` on, "2027-01-31" for
// the end of that day in `zone`, or "never", which is nullopt. InvalidArgument,
// without the name of an option, for other text and for a time that is over.
absl::StatusOr<std::optional<absl::Time>> ParseExpiry(const std::string& text,
                                                      absl::Time now,
                                                      absl::TimeZone zone);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TOKEN_EXPIRY_H_
