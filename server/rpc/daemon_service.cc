// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/daemon_service.h"

#include "server/rpc/daemon_info.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* DaemonService::Info(
    grpc::CallbackServerContext* context, const v1::InfoRequest*,
    v1::InfoResponse* response) {
  return Answer(context, reads_, "DaemonService.Info",
                [=, this] { return DaemonInfo(reader_, facts_, *response); });
}

}  // namespace mpsd::rpc
