// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_VERDICT_H_
#define MPSD_SERVER_JOBS_VERDICT_H_

#include <cstdint>
#include <string>

#include "server/jobs/job.h"
#include "server/jobs/job_files.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// The meaning of an attempt's end, once the disk has been looked at.
struct Verdict {
  WorkerListener::Result result;
  std::string job_lacks;   // holds this job alone; "" where nothing is lacking
  std::string disk_lacks;  // holds the queue; "" where nothing is lacking
  bool launched = true;    // false where no worker started
};

// Looks at the disk where the disk may explain `result`. An error of the job
// then becomes kMachine, and its message begins with what the disk lacks.
// `min_free_bytes` is the option of the Scheduler. Does I/O: call it without a
// lock.
Verdict JudgeEnd(const WorkerListener::Result& result, const Job& job,
                 int64_t min_free_bytes, JobFiles& files);

// The result of an attempt whose daemon is gone, as seen on the machine's boot
// `boot_id` ("": not known).
WorkerListener::Result Interruption(const Job& job, const std::string& boot_id);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_VERDICT_H_
