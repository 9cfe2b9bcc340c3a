// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

namespace mpsd::store {
class Database;
}  // namespace mpsd::store

// Jobs that have ended: their ends until they are announced, what retention
// sees of them, and what stays of deleted ones.

namespace mpsd::jobs {

// One end of a job, as the job was then; a retried job may end several times.
struct EndedJob {
  int64_t number = 0;  // grows from end to end, and is never used twice
  std::string job_id;
  State state = State::kFailed;  // a final one
  absl::Time time;
  std::string message;
};

// The ends of jobs that were not announced yet. An end is stored in the
// transaction that ends its job, by a trigger, and removed with the job.
// Thread-safe.
class EndedJobs {
 public:
  // `database` must outlive the object.
  explicit EndedJobs(store::Database& database) : database_(database) {}

  // The ends after `number`, oldest first, at most `limit`.
  absl::StatusOr<std::vector<EndedJob>> After(int64_t number, int limit);
  // Forgets an end. A power cut may bring the end back.
  absl::Status Forget(int64_t number);

 private:
  store::Database& database_;
};

// The disk space of a job's folder without its inputs.
struct FolderBytes {
  std::string id;
  int64_t bytes = 0;
  int64_t checkpoint_bytes = 0;  // among them

  bool operator==(const FolderBytes&) const = default;
};

// A job that has ended, as the rules of retention see it.
struct KeptJob {
  int64_t number = 0;  // of its row, never of two jobs
  absl::Time ended;
  int64_t bytes = 0;             // of its folder, as measured last
  int64_t checkpoint_bytes = 0;  // among them
  bool succeeded = false;
  // Pinned, or needed by a job that has not ended.
  bool bound = false;
};
struct KeptOwner {
  std::string name;
  std::vector<KeptJob> jobs;  // the one that ended first comes first
};

struct NamedJob {
  int64_t number = 0;
  std::string id, name;
};

// Retention's view of the rows of jobs, and changes in them. Thread-safe.
class KeptJobs {
 public:
  // `database` must outlive the object.
  explicit KeptJobs(store::Database& database) : database_(database) {}

  // Every job that has ended, except rows without the time of their end. Reads
  // two small indexes, some thousand jobs at a time, so that no other reader
  // waits for all of them.
  absl::StatusOr<std::vector<KeptOwner>> Ended();
  // In the order of `numbers`; missing jobs are omitted.
  absl::StatusOr<std::vector<NamedJob>> Names(
      absl::Span<const int64_t> numbers);
  // Why a rule may not remove the job or its checkpoints: it does not exist,
  // has not ended, ended at another time than `ended`, is pinned, or a job that
  // has not ended names its files or waits for it.
  absl::Status MayRemove(const std::string& id, absl::Time ended);

  // Why a user may not delete the job: as above, except that other jobs may
  // wait for its end.
  absl::Status MayDelete(const std::string& id);

  // NotFound if there is no such job.
  absl::Status SetPinned(const std::string& id, bool pinned);
  // Missing jobs are omitted.
  absl::Status SetBytes(absl::Span<const FolderBytes> folders);
  // Calls MayRemove, and in the same transaction removes the rows of the job's
  // checkpoints.
  absl::Status ForgetCheckpoints(const std::string& id, absl::Time ended);

 private:
  store::Database& database_;
};

struct JobNote {
  absl::Time time;
  std::string author, text;
};

// The observations of an attempt: a v1.RunAttempt, serialized.
struct AttemptRow {
  std::string job_id;
  absl::Time start;
  std::string body;
};

// What is kept of a deleted job in a list.
struct PastJob {
  ListPlace place;
  std::string name;  // its beginning
  std::string body;  // a v1.JobRecord, serialized
};

// Notes and tags of jobs, observations of their attempts, and the records of
// deleted jobs. Every call that changes something is one transaction, which a
// power cut does not undo once the call returned OK, except PutAttempts.
// Thread-safe.
class PastJobs {
 public:
  struct Options {
    // A record takes about 5 kB of the database, so these take 1 GB. Beyond it,
    // Put removes the oldest of the owner who has the most, those without a tag
    // or a note first: no owner pushes out another's records with many jobs.
    int64_t most = 200'000;
    absl::Duration search = absl::Seconds(2);
  };

  // `database` must outlive the object.
  explicit PastJobs(store::Database& database)
      : PastJobs(database, Options()) {}
  PastJobs(store::Database& database, const Options& options)
      : database_(database), options_(options) {}

  // Unavailable if another write lasts longer than `patience`.
  absl::Status PutAttempts(const std::vector<AttemptRow>& rows,
                           absl::Duration patience);
  // The bodies, oldest first.
  absl::StatusOr<std::vector<std::string>> Attempts(const std::string& job_id);

  // Keeps `job` as a past one; called right before its row is removed. `texts`:
  // what a text search covers in addition to the notes; `body`: see PastJob.
  absl::Status Put(const Job& job, const std::string& texts,
                   const std::string& body);
  // The body of a deleted job; NotFound if there is none.
  absl::StatusOr<std::string> BodyOf(const std::string& id);
  // Deleted jobs, as JobStore::List lists the others. DeadlineExceeded for a
  // search that takes too long.
  absl::StatusOr<std::vector<PastJob>> List(const ListFilter& filter);
  absl::StatusOr<int64_t> Count(const ListFilter& filter);
  // Deleted jobs that `text` may mean, latest first, with the first 60
  // characters of their names.
  absl::StatusOr<std::vector<FoundJob>> FindByText(const JobText& text,
                                                   int limit);

  // Of a job, deleted or not. Oldest first; sorted.
  absl::StatusOr<std::vector<JobNote>> NotesOf(const std::string& id);
  absl::StatusOr<std::vector<std::string>> TagsOf(const std::string& id);
  // NotFound if there neither is nor was such a job; ResourceExhausted if it
  // has limits::kJobNotes notes of that author.
  absl::Status AddNote(const std::string& id, const JobNote& note);
  // Removes first. NotFound likewise; ResourceExhausted, without a change, if
  // the job would have more than limits::kJobTags tags.
  absl::Status Tag(const std::string& id, const std::vector<std::string>& add,
                   const std::vector<std::string>& remove);

 private:
  store::Database& database_;
  const Options options_;
};

}  // namespace mpsd::jobs
