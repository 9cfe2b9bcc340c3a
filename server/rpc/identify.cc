// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/identify.h"

#include <utility>

#include "grpcpp/grpcpp.h"
#include "server/rpc/connection_notes.h"
#include "server/rpc/origin.h"

namespace mpsd::rpc {

Identify MakeIdentify(KnownCallers known) {
  return [known = std::move(known)](const grpc::CallbackServerContext& context)
             -> absl::StatusOr<access::Caller> {
    absl::StatusOr<access::Caller> caller =
        CallerOf(*context.auth_context(), context.client_metadata(), known);
    if (caller.ok()) caller->origin = Origin(context.peer());
    return caller;
  };
}

}  // namespace mpsd::rpc
