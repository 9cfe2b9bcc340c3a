// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOKEN_H_
#define MPSD_CLIENT_TOKEN_H_

#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"

namespace mpsd::client {

// When a token expires: "90d", "12h" or "2w" from `now` on, "2027-01-31" for
// the end of that day in `zone`, or "never", which is nullopt. InvalidArgument,
// without the name of an option, for other text and for a time that is over.
absl::StatusOr<std::optional<absl::Time>> ParseExpiry(const std::string& text,
                                                      absl::Time now,
                                                      absl::TimeZone zone);

// Where and how `mpsctl token` prints.
struct TokenView {
  std::ostream& out;  // for results
  std::ostream& err;  // for text around them
  bool json = false;  // results as JSON, one object per line
  int columns = 0;    // of the terminal; 0: no bound
  absl::Time now;
  absl::TimeZone zone;
};

// Prints only the secret to `out`, for TOKEN=$(mpsctl token create …), and to
// `err` what it is and how to hand it over.
void PrintCreated(const TokenView& view,
                  const v1::CreateTokenResponse& response);
void PrintTokens(const TokenView& view, const v1::ListTokensResponse& response);
void PrintRevoked(const TokenView& view, const std::string& id,
                  const v1::RevokeTokenResponse& response);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TOKEN_H_
