// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONNECTION_H_
#define MPSD_CLIENT_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "client/address.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"

namespace mpsd::client {

// The three services of one daemon. The first call connects; a call fails at
// once with UNAVAILABLE where no daemon listens. Used by one thread.
class Connection {
 public:
  explicit Connection(Address address);

  v1::JobService::Stub& jobs() { return *jobs_; }
  v1::ArtifactService::Stub& artifacts() { return *artifacts_; }
  v1::DaemonService::Stub& daemon() { return *daemon_; }
  const Address& address() const { return address_; }

  // Forgets the connection and its back-off; the next call connects afresh.
  // Calls in progress must have ended.
  void Reset();

 private:
  const Address address_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts_;
  std::unique_ptr<v1::DaemonService::Stub> daemon_;
};

// Gives a unary call 30 s to answer.
void SetDeadline(grpc::ClientContext& context);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONNECTION_H_
