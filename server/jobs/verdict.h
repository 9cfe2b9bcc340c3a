// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_VERDICT_H_
#define MPSD_SERVER_JOBS_VERDICT_H_

#include <cstdint>
#include <string>

#include "server/jobs/job.h"
#include "server/jobs/job_files.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// What the end of an attempt means once the machine has been looked at.
struct Verdict {
  WorkerListener::Result result;
  std::string job_lacks;   // holds this job alone; "" where nothing is lacking
  std::string disk_lacks;  // holds the queue; likewise
};

// Looks at the disk where that may explain `result`: an error of the job is
// kMachine then, with what is lacking before its message. `min_free_bytes` as
// Scheduler::Options has it. Does I/O: call it without a lock.
Verdict JudgeEnd(const WorkerListener::Result& result, const Job& job,
                 int64_t min_free_bytes, JobFiles& files);

// The end of an attempt whose daemon is gone, told on the machine's boot
// `boot_id` ("": not known).
WorkerListener::Result Interruption(const Job& job, const std::string& boot_id);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_VERDICT_H_
