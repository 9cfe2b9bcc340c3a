// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DAEMON_SERVICE_H_
#define MPSD_SERVER_RPC_DAEMON_SERVICE_H_

#include <utility>

#include "mpsd/v1/daemon.grpc.pb.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/daemon_facts.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// mpsd.v1.DaemonService. The borrowed objects must outlive the service.
class DaemonService final : public v1::DaemonService::CallbackService {
 public:
  DaemonService(jobs::JobReader& reader, CallHost& reads, DaemonFacts facts)
      : reader_(reader), reads_(reads), facts_(std::move(facts)) {}

  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext* context,
                                 const v1::InfoRequest* request,
                                 v1::InfoResponse* response) override;

 private:
  jobs::JobReader& reader_;
  CallHost& reads_;
  const DaemonFacts facts_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DAEMON_SERVICE_H_
