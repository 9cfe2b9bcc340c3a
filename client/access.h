// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/console.h"
#include "mpsd/v1/access.pb.h"

// Logins, contexts, tokens and the audit.

namespace mpsd::client {

// When a token expires: "90d", "12h" or "2w" from `now` on, "2027-01-31" for
// the end of that day in `zone`, or "never", which is nullopt. InvalidArgument,
// without the name of an option, for other text and for a time that is over.
absl::StatusOr<std::optional<absl::Time>> ParseExpiry(const std::string& text,
                                                      absl::Time now,
                                                      absl::TimeZone zone);

// Prints only the secret to console.out, for TOKEN=$(mpsctl admin token create
// …), and to console.err what it is and how to hand it over.
void PrintCreated(const Console& console,
                  const v1::CreateTokenResponse& response);
void PrintTokens(const Console& console,
                 const v1::ListTokensResponse& response);
void PrintRevoked(const Console& console, const std::string& id,
                  const v1::RevokeTokenResponse& response);

}  // namespace mpsd::client
