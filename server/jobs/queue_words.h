// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_QUEUE_WORDS_H_
#define MPSD_SERVER_JOBS_QUEUE_WORDS_H_

#include <string>

#include "absl/time/time.h"
#include "server/jobs/job_queue.h"

namespace mpsd::jobs {

// Why a queued job stands where it stands, for people. `used`: what its owner
// used of the device lately; `half_life`: zero where that does not count.
std::string WhyThere(const JobQueue::Entry& entry, absl::Duration used,
                     absl::Duration half_life);

// A time for people, to the second below an hour and to the minute above:
// "2h5m".
std::string RoundTime(absl::Duration time);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_QUEUE_WORDS_H_
