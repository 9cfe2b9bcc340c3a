// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DAEMON_SERVICE_H_
#define MPSD_SERVER_RPC_DAEMON_SERVICE_H_

#include <utility>

#include "mpsd/v1/daemon.grpc.pb.h"
#include "server/jobs/collector.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/daemon_facts.h"
#include "server/rpc/gate.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"

namespace mpsd::rpc {

// mpsd.v1.DaemonService. The borrowed objects must outlive the service;
// `collector` may be null.
class DaemonService final : public v1::DaemonService::CallbackService {
 public:
  // `changes`: for the calls that wait for the store.
  DaemonService(const Gate& gate, jobs::JobManager& manager,
                jobs::JobReader& reader, const UserAccounts& accounts,
                CallHost& reads, CallHost& changes, CallHost& collections,
                jobs::Collector* collector, DaemonFacts facts)
      : gate_(gate),
        manager_(manager),
        reader_(reader),
        accounts_(accounts),
        reads_(reads),
        changes_(changes),
        collections_(collections),
        collector_(collector),
        facts_(std::move(facts)) {}

  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext* context,
                                 const v1::InfoRequest* request,
                                 v1::InfoResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* Undrain(grpc::CallbackServerContext* context,
                                    const v1::UndrainRequest* request,
                                    v1::UndrainResponse* response) override;
  grpc::ServerUnaryReactor* PlanCollection(
      grpc::CallbackServerContext* context,
      const v1::PlanCollectionRequest* request,
      v1::PlanCollectionResponse* response) override;
  grpc::ServerUnaryReactor* Collect(grpc::CallbackServerContext* context,
                                    const v1::CollectRequest* request,
                                    v1::CollectResponse* response) override;

 private:
  const Gate& gate_;
  jobs::JobManager& manager_;
  jobs::JobReader& reader_;
  const UserAccounts& accounts_;
  CallHost& reads_;
  CallHost& changes_;
  CallHost& collections_;  // which work on the disk
  jobs::Collector* const collector_;
  const DaemonFacts facts_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DAEMON_SERVICE_H_
