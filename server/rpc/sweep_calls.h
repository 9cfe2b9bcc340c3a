// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SWEEP_CALLS_H_
#define MPSD_SERVER_RPC_SWEEP_CALLS_H_

#include "absl/status/status.h"
#include "mpsd/v1/sweep.pb.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/user_ledger.h"
#include "server/rpc/unary_call.h"
#include "server/sweeps/sweep_book.h"

namespace mpsd::rpc {

// The calls of SweepService; errors as the proto states. The gate has asked
// whether the caller may call at all; whose sweep it is, the calls ask.
//
// `ledger` knows who sent which blob, null where nobody counts.
absl::Status CreateSweep(sweeps::SweepBook& book, jobs::JobReader& reader,
                         jobs::UserLedger* ledger,
                         const v1::CreateSweepRequest& request, Call& call,
                         v1::Sweep& response);
absl::Status GetSweep(sweeps::SweepBook& book, const access::Rights& rights,
                      const v1::GetSweepRequest& request, v1::Sweep& response);
absl::Status ListSweeps(sweeps::SweepBook& book, const access::Rights& rights,
                        const v1::ListSweepsRequest& request,
                        v1::ListSweepsResponse& response);
absl::Status CancelSweep(sweeps::SweepBook& book, const access::Rights& rights,
                         const v1::CancelSweepRequest& request,
                         v1::Sweep& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SWEEP_CALLS_H_
