// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DIAGNOSE_CALL_H_
#define MPSD_SERVER_RPC_DIAGNOSE_CALL_H_

#include "absl/status/status.h"
#include "mpsd/v1/doctor.pb.h"
#include "server/planner/judge.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// RunbookService.Diagnose; errors as in the proto. The gate has admitted the
// caller. Unimplemented if `examiner` is null.
absl::Status Diagnose(doctor::Examiner* examiner, Call& call,
                      const v1::DiagnoseRequest& request,
                      v1::Diagnosis& response);

// Fills in the facts of an empty message, not its findings.
void ToProto(const doctor::Facts& facts, v1::Diagnosis& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DIAGNOSE_CALL_H_
