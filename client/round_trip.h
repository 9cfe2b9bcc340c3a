// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_ROUND_TRIP_H_
#define MPSD_CLIENT_ROUND_TRIP_H_

#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Asks the daemon whether it answers: the call's status. Where it does, notes
// in `request` how long a small answer takes, for the job's record.
grpc::Status Reach(const Console& console, v1::SubmitRequest* request);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_ROUND_TRIP_H_
