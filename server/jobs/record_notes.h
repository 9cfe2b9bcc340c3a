// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RECORD_NOTES_H_
#define MPSD_SERVER_JOBS_RECORD_NOTES_H_

#include <string>

#include "absl/status/status.h"

namespace mpsd::jobs {

// The notes in the logbook's records of jobs. Thread-safe. Implemented by
// server/logbook.
class RecordNotes {
 public:
  virtual ~RecordNotes() = default;

  // Adds a note to the record of job `job_id`, also where the job has ended so
  // lately that its record is not written yet. `author`: who asked; `text`: 1
  // to limits::kRecordNoteBytes of UTF-8. Durable once it returns OK.
  //   NOT_FOUND           there is no such record: the job has not ended, or
  //                       never was.
  //   RESOURCE_EXHAUSTED  the record has limits::kRecordNotes notes, or the
  //                       disk is full.
  virtual absl::Status Add(const std::string& job_id, const std::string& author,
                           const std::string& text) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_RECORD_NOTES_H_
