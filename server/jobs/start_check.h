// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_START_CHECK_H_
#define MPSD_SERVER_JOBS_START_CHECK_H_

#include <cstdint>
#include <string>

#include "server/jobs/job.h"
#include "server/jobs/job_files.h"

namespace mpsd::jobs {

// Looks for what the machine lacks, before a worker is started and after one
// has failed. Each function returns a text for people, "" where nothing is
// lacking.

// Names the first of the job's paths that existed at Submit and is gone now.
std::string MissingPath(const Job& job, JobFiles& files);

// Says that fewer than `floor` bytes are free on the state folder's disk.
std::string FullDisk(int64_t floor, JobFiles& files);

// Says that the disk has no room for a checkpoint of the job beside `floor`.
std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_START_CHECK_H_
