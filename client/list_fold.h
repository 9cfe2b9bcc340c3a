// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_LIST_FOLD_H_
#define MPSD_CLIENT_LIST_FOLD_H_

#include "client/connection.h"
#include "mpsd/v1/jobs.pb.h"
#include "mpsd/v1/sweep.pb.h"

namespace mpsd::client {

// The row of a list that stands for a sweep, as a job: its id is the sweep's,
// and its name says how many children have ended, and the best value.
v1::Job RowOf(const v1::Sweep& sweep);

// Puts the rows of sweeps in the place of the children that stand for them
// (ListJobsRequest.fold_sweeps). Where the daemon does not tell of a sweep, its
// child stays.
void FoldSweeps(Connection& daemon,
                google::protobuf::RepeatedPtrField<v1::Job>* jobs);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_LIST_FOLD_H_
