// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOKEN_TOKEN_OPTIONS_H_
#define MPSD_CLIENT_TOKEN_TOKEN_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/command_line.h"
#include "mpsd/v1/access.pb.h"

namespace mpsd::client {

// The command lines of `mpsd token` and `mpsctl token`, which are the same.
struct TokenOptions {
  enum class Verb { kCreate, kList, kRevoke };
  Verb verb = Verb::kList;
  std::string user;
  std::string role;
  std::string expires = "90d";
  std::string note;
  std::vector<std::string> ids;
};

// Adds create, list and revoke to `app`. Parsing a command line fills
// *options.
void AddTokenVerbs(Command& app, TokenOptions* options);

// What `create` asks for. InvalidArgument names the option.
absl::StatusOr<v1::CreateTokenRequest> CreateRequest(
    const TokenOptions& options, absl::Time now, absl::TimeZone zone);

// InvalidArgument where `revoke` got a token in the place of its id; the error
// does not quote it, and no daemon is asked.
absl::Status CheckTokenIds(const TokenOptions& options);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TOKEN_TOKEN_OPTIONS_H_
