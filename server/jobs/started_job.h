// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_STARTED_JOB_H_
#define MPSD_SERVER_JOBS_STARTED_JOB_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// A job whose attempt starts, as the exported metrics tell of it.
struct StartedJob {
  std::string id, name, owner;
  std::string task;   // as job.json has it: "CAUSAL_LM"
  std::string model;  // its id, or else the last part of its folder's path
  absl::Duration queue_wait;
  std::optional<absl::Duration> time_left = {};  // TimeLeft()
};

// `spec`: the job's. `job` has its start_time; it was queued at `since`.
StartedJob DescribeStart(const Job& job, const spec::TrainSpec& spec,
                         absl::Time since);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_STARTED_JOB_H_
