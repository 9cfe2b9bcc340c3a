// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONNECTION_H_
#define MPSD_CLIENT_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/address.h"
#include "client/interrupt.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "mpsd/v1/models.grpc.pb.h"
#include "mpsd/v1/runbook.grpc.pb.h"

namespace mpsd::client {

// The services of one daemon. The first call connects; a call fails at once
// with UNAVAILABLE where no daemon listens. Every call of every stub carries
// the address' token, which is sent over TLS or to this machine's loopback and
// nowhere else. Used by one thread.
class Connection {
 public:
  // `interrupt` breaks off what Connect and Reset wait for; it may be null.
  explicit Connection(Address address, Interrupt* interrupt = nullptr);

  // Opens the tunnel of an address behind ssh; OK at once for any other. Errors
  // are ssh::Tunnel::Open's.
  absl::Status Connect();
  // How the last attempt to open the tunnel went.
  absl::Status tunnel_status() const;

  v1::JobService::Stub& jobs() { return *jobs_; }
  v1::ArtifactService::Stub& artifacts() { return *artifacts_; }
  v1::DaemonService::Stub& daemon() { return *daemon_; }
  v1::AccessService::Stub& access() { return *access_; }
  v1::ModelService::Stub& models() { return *models_; }
  v1::RunbookService::Stub& runbook() { return *runbook_; }
  const Address& address() const { return address_; }

  // Forgets the connection and its back-off; the next call connects afresh,
  // through a new tunnel where the old one has broken. Calls in progress must
  // have ended.
  void Reset();

 private:
  void MakeChannel();

  const Address address_;
  Interrupt* const interrupt_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts_;
  std::unique_ptr<v1::DaemonService::Stub> daemon_;
  std::unique_ptr<v1::AccessService::Stub> access_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  std::unique_ptr<v1::RunbookService::Stub> runbook_;
};

// Gives a unary call 30 s to answer.
void SetDeadline(grpc::ClientContext& context);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONNECTION_H_
