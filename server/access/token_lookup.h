// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_TOKEN_LOOKUP_H_
#define MPSD_SERVER_ACCESS_TOKEN_LOOKUP_H_

#include <optional>
#include <string_view>

#include "server/access/caller.h"

namespace mpsd::access {

// Knows the tokens. Thread-safe; waits for no disk, since gRPC's own threads
// ask.
class TokenLookup {
 public:
  virtual ~TokenLookup() = default;
  // The caller that `secret` stands for, but for its origin; nullopt where
  // there is no such token, or not any more.
  virtual std::optional<Caller> Find(std::string_view secret) = 0;
};

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_TOKEN_LOOKUP_H_
