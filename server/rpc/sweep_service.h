// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SWEEP_SERVICE_H_
#define MPSD_SERVER_RPC_SWEEP_SERVICE_H_

#include "mpsd/v1/sweep.grpc.pb.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/gate.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"
#include "server/sweeps/sweep_book.h"

namespace mpsd::rpc {

// mpsd.v1.SweepService. A sweep is made where jobs are submitted. The borrowed
// objects must outlive the service.
class SweepService final : public v1::SweepService::CallbackService {
 public:
  struct Hosts {
    CallHost& reads;
    CallHost& changes;
    CallHost& submits;
  };

  SweepService(const Gate& gate, sweeps::SweepBook& book,
               jobs::JobReader& reader, const UserAccounts& accounts,
               const Hosts& hosts)
      : gate_(gate),
        book_(book),
        reader_(reader),
        accounts_(accounts),
        hosts_(hosts) {}

  grpc::ServerUnaryReactor* CreateSweep(grpc::CallbackServerContext* context,
                                        const v1::CreateSweepRequest* request,
                                        v1::Sweep* response) override;
  grpc::ServerUnaryReactor* GetSweep(grpc::CallbackServerContext* context,
                                     const v1::GetSweepRequest* request,
                                     v1::Sweep* response) override;
  grpc::ServerUnaryReactor* ListSweeps(
      grpc::CallbackServerContext* context,
      const v1::ListSweepsRequest* request,
      v1::ListSweepsResponse* response) override;
  grpc::ServerUnaryReactor* CancelSweep(grpc::CallbackServerContext* context,
                                        const v1::CancelSweepRequest* request,
                                        v1::Sweep* response) override;

 private:
  const Gate& gate_;
  sweeps::SweepBook& book_;
  jobs::JobReader& reader_;
  const UserAccounts& accounts_;
  const Hosts hosts_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SWEEP_SERVICE_H_
