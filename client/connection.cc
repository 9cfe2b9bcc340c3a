// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <utility>

namespace mpsd::client {

Connection::Connection(Address address) : address_(std::move(address)) {
  Reset();
}

void Connection::Reset() {
  grpc::ChannelArguments arguments;
  // Proxies are for the web. A subchannel that is shared with an earlier
  // connection would keep that connection's back-off.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  // Ends a call without a deadline once the daemon's machine is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto channel = grpc::CreateCustomChannel(
      address_.target, grpc::InsecureChannelCredentials(), arguments);
  jobs_ = v1::JobService::NewStub(channel);
  artifacts_ = v1::ArtifactService::NewStub(channel);
  daemon_ = v1::DaemonService::NewStub(channel);
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(30));
}

}  // namespace mpsd::client
