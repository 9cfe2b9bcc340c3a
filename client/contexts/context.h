// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONTEXTS_CONTEXT_H_
#define MPSD_CLIENT_CONTEXTS_CONTEXT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::client {

// A daemon that somebody logged in to, and how.
struct Context {
  std::string name;
  std::string server;  // "studio.local:7433", "ssh://studio.local"
  bool tls = true;     // else a port of this machine's loopback
  // The authority that signed the daemon's certificate, PEM; empty: one that
  // the system trusts.
  std::string ca_pem = {};
  std::string socket = {};  // at the host of an ssh:// server
  std::string user = {};    // as the daemon said at the login
  std::string token = {};   // empty: none

  bool operator==(const Context&) const = default;
};

// The name that stands for this machine's own daemon, and is no context.
inline constexpr char kLocalContext[] = "local";

// InvalidArgument unless `name` can name a context: 1 to 64 of a-z, 0-9 and
// "._-", the first a letter or a digit; not kLocalContext.
absl::Status CheckContextName(std::string_view name);

// A name made of a host's: "studio.local" for "Studio.local".
std::string NameForHost(std::string_view host);

// InvalidArgument, without a word of it, unless `token` is a whole one
// (core/base/api_token.h).
absl::Status CheckToken(std::string_view token);

// A context as the text of its file, JSON; without its name.
std::string ToText(const Context& context);
// InvalidArgument names the member and what was expected of it.
absl::StatusOr<Context> FromText(const std::string& name,
                                 std::string_view text);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONTEXTS_CONTEXT_H_
