// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_RUNBOOK_SERVICE_H_
#define MPSD_SERVER_RPC_RUNBOOK_SERVICE_H_

#include "mpsd/v1/runbook.grpc.pb.h"
#include "server/doctor/judge.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/gate.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"

namespace mpsd::rpc {

// mpsd.v1.RunbookService. The borrowed objects must outlive the service;
// `examiner` may be null.
class RunbookService final : public v1::RunbookService::CallbackService {
 public:
  // A null `planner`: plans are off. `diagnoses`: for Diagnose, which takes
  // seconds.
  RunbookService(const Gate& gate, jobs::JobReader& reader, CallHost& reads,
                 jobs::Planner* planner, const UserAccounts& accounts,
                 StreamHost& streams, CallHost& diagnoses,
                 doctor::Examiner* examiner)
      : gate_(gate),
        reader_(reader),
        reads_(reads),
        planner_(planner),
        accounts_(accounts),
        streams_(streams),
        diagnoses_(diagnoses),
        examiner_(examiner) {}

  grpc::ServerWriteReactor<v1::PlanEvent>* Plan(
      grpc::CallbackServerContext* context,
      const v1::PlanRequest* request) override;

  grpc::ServerUnaryReactor* Diagnose(grpc::CallbackServerContext* context,
                                     const v1::DiagnoseRequest* request,
                                     v1::Diagnosis* response) override;
  grpc::ServerUnaryReactor* GetStudyResult(
      grpc::CallbackServerContext* context,
      const v1::GetStudyResultRequest* request,
      v1::StudyResult* response) override;

 private:
  const Gate& gate_;
  jobs::JobReader& reader_;
  CallHost& reads_;
  jobs::Planner* const planner_;
  const UserAccounts& accounts_;
  StreamHost& streams_;
  CallHost& diagnoses_;
  doctor::Examiner* const examiner_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_RUNBOOK_SERVICE_H_
