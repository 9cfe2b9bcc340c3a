// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_TOKEN_DOOR_H_
#define MPSD_SERVER_TOKEN_DOOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"
#include "server/config.h"

namespace mpsd {

// The way to the tokens of a state folder, for a program on its machine. One
// thread at a time. Errors as proto/mpsd/v1/access.proto states.
class TokenDoor {
 public:
  virtual ~TokenDoor() = default;
  virtual absl::Status Create(const v1::CreateTokenRequest& request,
                              v1::CreateTokenResponse& response) = 0;
  virtual absl::Status List(v1::ListTokensResponse& response) = 0;
  virtual absl::Status Revoke(const v1::RevokeTokenRequest& request,
                              v1::RevokeTokenResponse& response) = 0;
};

// Asks the daemon that serves the state folder's socket; opens the database
// itself, under the folder's lock and with the same checks and the same audit,
// where no daemon runs. Waits up to `patience` for a daemon that starts or
// ends. NotFound where there is no state folder, PermissionDenied for an
// account that may use neither, Unavailable for a daemon that does not answer.
absl::StatusOr<std::unique_ptr<TokenDoor>> OpenTokenDoor(
    const Config& config, absl::Duration patience = absl::Seconds(10));

}  // namespace mpsd

#endif  // MPSD_SERVER_TOKEN_DOOR_H_
