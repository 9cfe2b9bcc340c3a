// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_START_CHECK_H_
#define MPSD_SERVER_JOBS_START_CHECK_H_

#include <cstdint>
#include <string>

#include "core/spec/train_spec.h"
#include "server/jobs/job.h"
#include "server/jobs/job_files.h"

namespace mpsd::jobs {

// The job's spec. A spec without paths where it cannot be read: the worker
// reports what is wrong. Parses job.json, so call it once an attempt.
spec::TrainSpec SpecOf(const Job& job);

// Looks for what the machine lacks, before a worker is started and after one
// has failed. Each function below returns a text for people, "" where nothing
// is lacking.

// Names the first of the paths of `spec`, the job's, that existed at Submit and
// is gone now.
std::string MissingPath(const Job& job, const spec::TrainSpec& spec,
                        JobFiles& files);

// Says that fewer than `floor` bytes are free on the state folder's disk.
std::string FullDisk(int64_t floor, JobFiles& files);

// Says that the disk has no room for a checkpoint of the job beside `floor`.
std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_START_CHECK_H_
