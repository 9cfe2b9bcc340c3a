// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_RECORDS_H_
#define MPSD_SERVER_JOBS_JOB_RECORDS_H_

#include <string>

#include "absl/status/status.h"

namespace mpsd::jobs {

// The logbook, as those see it who remove jobs. Thread-safe. Implemented by
// server/logbook.
class JobRecords {
 public:
  virtual ~JobRecords() = default;
  // Writes the record of a job that has ended, unless it is written already.
  // Reads the job's row and files. ResourceExhausted on a full disk.
  virtual absl::Status WriteRecord(const std::string& job_id) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_RECORDS_H_
