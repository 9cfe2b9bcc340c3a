// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_START_CHECK_H_
#define MPSD_SERVER_JOBS_START_CHECK_H_

#include <cstdint>
#include <string>

#include "server/jobs/job.h"
#include "server/jobs/job_files.h"

namespace mpsd::jobs {

// Looks at the disk before a worker is started, and after one has failed, for
// what the machine lacks. Texts are for people; "" where nothing is lacking.

// The first of the paths that the job had at Submit and that is gone now.
std::string MissingPath(const Job& job, JobFiles& files);

// Less than `floor` bytes are free on the state folder's disk.
std::string FullDisk(int64_t floor, JobFiles& files);

// Beside `floor` there is no room for a checkpoint of the job.
std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_START_CHECK_H_
