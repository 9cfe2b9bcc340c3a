// SPDX-License-Identifier: Apache-2.0
#include "server/openai/desk.h"

#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "server/rpc/bearer_token.h"
#include "server/rpc/connection_notes.h"
#include "server/rpc/origin.h"

namespace mpsd::openai {
namespace {

std::string OriginOf(const http::Request& request) {
  return request.peer.empty() ? rpc::Origin("unix:") : request.peer;
}

// All that is told of a caller who is not known.
access::Caller Stranger(const http::Request& request) {
  access::Caller stranger;
  stranger.way = access::Way::kToken;
  stranger.origin = OriginOf(request);
  return stranger;
}

// gRPC has these methods as streams, and the counters say so.
bool IsStream(std::string_view method) {
  return method == "ArtifactService.Upload" ||
         method == "ArtifactService.Download" || method == "JobService.Watch";
}

}  // namespace

Desk::Desk(Backend backend)
    : backend_(std::move(backend)),
      barrier_(backend_.log),
      gate_({.identify = {},
             .private_jobs = backend_.private_jobs,
             .audit = backend_.audit},
            backend_.reader) {}

absl::StatusOr<access::Caller> Desk::CallerOf(
    const http::Request& request) const {
  rpc::Metadata metadata;
  if (!request.authorization.empty()) {
    metadata.emplace("authorization", request.authorization);
  }
  const absl::StatusOr<std::optional<std::string_view>> token =
      rpc::BearerToken(metadata);
  if (!token.ok()) return token.status();
  if (!token->has_value()) {
    return absl::UnauthenticatedError(
        "no token came with the request; give the client one of this daemon's "
        "tokens as its api_key: ask an admin (mpsd token create)");
  }
  absl::StatusOr<access::Caller> caller =
      rpc::CallerByToken(**token, backend_.callers);
  if (caller.ok()) caller->origin = OriginOf(request);
  return caller;
}

absl::StatusOr<access::Rights> Desk::Enter(const http::Request& request,
                                           const rpc::Asked& asked) const {
  return gate_.Enter(CallerOf(request), Stranger(request), asked);
}

absl::Status Desk::Call(
    const http::Request& request, const rpc::Asked& asked,
    const std::function<absl::Status(rpc::Call&)>& work) const {
  const absl::Time start = absl::Now();
  const absl::StatusOr<access::Rights> rights = Enter(request, asked);
  absl::Status done = rights.status();
  if (rights.ok()) {
    rpc::Call call{*rights, {}, ""};
    done = rpc::Carry(gate_, asked, barrier_, work, call);
  }
  Count(asked.method.rule().method, done.code(), absl::Now() - start);
  return done;
}

void Desk::Count(const char* method, absl::StatusCode code,
                 absl::Duration duration) const {
  if (backend_.calls == nullptr) return;
  const jobs::CallMethod called{method, IsStream(method)};
  backend_.calls->CallStarted(called);
  backend_.calls->CallEnded(called, code, duration);
}

}  // namespace mpsd::openai
