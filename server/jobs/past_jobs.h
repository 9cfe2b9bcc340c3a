// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_PAST_JOBS_H_
#define MPSD_SERVER_JOBS_PAST_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_store.h"
#include "server/jobs/list_filter.h"

namespace mpsd::jobs {

struct JobNote {
  absl::Time time;
  std::string author, text;
};

// What was seen of an attempt: a v1.RunAttempt, serialized.
struct AttemptRow {
  std::string job_id;
  absl::Time start;
  std::string body;
};

// What stays of a deleted job in a list.
struct PastJob {
  ListPlace place;
  std::string name;  // its beginning
  std::string body;  // a v1.JobRecord, serialized
};

// Notes and tags of jobs, what was seen of their attempts, and the records of
// deleted jobs. Every call that changes something is one transaction, which a
// power cut does not undo once the call returned OK, but for PutAttempts, which
// it may. Thread-safe. Implemented by server/store.
class PastJobs {
 public:
  virtual ~PastJobs() = default;

  virtual absl::Status PutAttempts(const std::vector<AttemptRow>& rows) = 0;
  // The bodies, oldest first.
  virtual absl::StatusOr<std::vector<std::string>> Attempts(
      const std::string& job_id) = 0;

  // Keeps `job` as a past one; called right before its row goes. `texts`: what
  // a search for a text looks at beside the notes; `body`: see PastJob.
  virtual absl::Status Put(const Job& job, const std::string& texts,
                           const std::string& body) = 0;
  // The body of a deleted job; NotFound where there is none.
  virtual absl::StatusOr<std::string> BodyOf(const std::string& id) = 0;
  // Deleted jobs as JobStore::List has the others. DeadlineExceeded for a
  // search that takes too long.
  virtual absl::StatusOr<std::vector<PastJob>> List(
      const ListFilter& filter) = 0;
  virtual absl::StatusOr<int64_t> Count(const ListFilter& filter) = 0;
  // Deleted jobs whose id begins or ends with `part`, latest first.
  virtual absl::StatusOr<std::vector<FoundJob>> FindByIdPart(
      const std::string& part, int limit) = 0;

  // Of a job, deleted or not. Oldest first; sorted.
  virtual absl::StatusOr<std::vector<JobNote>> NotesOf(
      const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<std::string>> TagsOf(
      const std::string& id) = 0;
  // NotFound where there is no such job and was none; ResourceExhausted where
  // it has limits::kJobNotes notes.
  virtual absl::Status AddNote(const std::string& id, const JobNote& note) = 0;
  // Removes first. NotFound likewise; ResourceExhausted, and nothing is
  // changed, where the job would have more than limits::kJobTags tags.
  virtual absl::Status Tag(const std::string& id,
                           const std::vector<std::string>& add,
                           const std::vector<std::string>& remove) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_PAST_JOBS_H_
