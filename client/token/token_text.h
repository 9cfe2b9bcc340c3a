// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOKEN_TOKEN_TEXT_H_
#define MPSD_CLIENT_TOKEN_TOKEN_TEXT_H_

#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"

namespace mpsd::client {

// Where and how `mpsd token` and `mpsctl token` print.
struct TokenView {
  std::ostream& out;  // for results
  std::ostream& err;  // for words around them
  bool json = false;  // results as JSON, one object a line
  int columns = 0;    // of the terminal; 0: no bound
  absl::Time now;
  absl::TimeZone zone;
  std::string program;  // "mpsctl": what the hints name
};

// Prints the secret alone to `out`, so that TOKEN=$(mpsd token create …) has
// it, and to `err` what it is and how to hand it over.
void PrintCreated(const TokenView& view,
                  const v1::CreateTokenResponse& response);
void PrintTokens(const TokenView& view, const v1::ListTokensResponse& response);
void PrintRevoked(const TokenView& view, const std::string& id,
                  const v1::RevokeTokenResponse& response);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TOKEN_TOKEN_TEXT_H_
