// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RUNG_H_
#define MPSD_SERVER_JOBS_RUNG_H_

#include <string>

#include "server/jobs/job.h"

namespace mpsd::jobs {

// Whether the job has a checkpoint of the step at which it is to stop
// (Job::until_step): it rests in the queue until somebody sends it on, or drops
// it (sweep_children.h).
inline bool RestsAtRung(const Job& job) {
  return job.state == State::kQueued && job.until_step > 0 && !job.fresh &&
         job.durable_step >= job.until_step;
}

// Why such a job does not start, for people.
std::string DescribeRung(const Job& job);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_RUNG_H_
