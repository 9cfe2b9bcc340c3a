// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_STORE_H_
#define MPSD_SERVER_JOBS_JOB_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// The sort key of a list of jobs; jobs with equal keys are in order of
// creation. The numbers are those of v1.JobOrder.
enum class ListOrder {
  kCreated = 1,  // the order of creation
  kEndTime = 2,
  kName = 3,  // its first kOrderedCharacters, A and a alike (ASCII)
  kOwner = 4,
  kState = 5,
  kPriority = 6,
  kEvalLoss = 7,
  kDeviceTime = 8,
  kStoredBytes = 9,
};
inline constexpr ListOrder kAllListOrders[] = {
    ListOrder::kCreated,  ListOrder::kEndTime,    ListOrder::kName,
    ListOrder::kOwner,    ListOrder::kState,      ListOrder::kPriority,
    ListOrder::kEvalLoss, ListOrder::kDeviceTime, ListOrder::kStoredBytes};
// Long enough for names, which are cut to limits::kNameBytes.
inline constexpr int kOrderedCharacters = 60;

// A job's place in a list. It is self-contained: the next page begins after it
// even if the job was changed or deleted since.
struct ListPlace {
  std::string id;
  // The job's value of the order: monostate for kCreated and for a job without
  // a value; microseconds for times.
  std::variant<std::monostate, int64_t, double, std::string> value;

  bool operator==(const ListPlace&) const = default;
};
ListPlace PlaceOf(const Job& job, ListOrder order);

struct ListFilter {
  std::vector<State> states;                  // empty: all
  std::string owner;                          // empty: all
  std::map<std::string, std::string> labels;  // all must match
  int limit = 50;
  std::optional<ListPlace> after;  // exclusive; absent: from the first
  // For a table of jobs: spec_json, confusion_matrix and warnings stay empty,
  // and texts are cut to limits.h. A row that cannot be read as a whole has its
  // readable columns and says so in its message. A summary is never written
  // back.
  bool summaries = false;

  // In id, name, owner, model, message, or a label's key or value, ignoring
  // case; empty: all.
  std::string text;
  // Present: of other owners' jobs only id and owner are searched for `text`.
  std::optional<std::string> text_of_owner;
  // At or after the first, before the second.
  std::optional<absl::Time> created_from, created_to, ended_from, ended_to;
  std::string model;              // empty: all
  std::vector<std::string> tags;  // all must match
  std::optional<bool> pinned, held;
  ListOrder order = ListOrder::kCreated;
  bool past = false;  // deleted jobs (PastJobs::List) instead of the others
  // Smallest, oldest, A first; jobs without a value are last either way.
  bool ascending = false;
};

// An owner's recent use of the device (job_queue.h): seconds as of `time`.
struct OwnerUse {
  std::string owner;
  double seconds = 0;
  absl::Time time;
};

struct FoundJob {
  std::string id;
  std::string name;
  State state = State::kQueued;
  std::string owner = "";
};

// Stores jobs. Every call that changes something is one transaction, and
// durable when it returns OK. Thread-safe. Implemented by server/store over
// SQLite and by a fake in the tests.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // Adds a row and its first event. AlreadyExists if the owner has used the
  // idempotency key, whatever the request.
  virtual absl::Status Insert(const Job& job, const Event& first) = 0;

  // Replaces the row of job.id and appends `events`, whose sequences are
  // already set. FailedPrecondition if the stored state cannot become
  // job.state. A call that changes neither state nor cancel_requested and whose
  // only events are Progress survives a kill of mpsd at once, but survives a
  // power cut only once a later call of another kind has returned.
  // With `use` the same transaction replaces what is stored of that owner.
  virtual absl::Status Update(const Job& job, absl::Span<const Event> events,
                              const OwnerUse* use) = 0;
  absl::Status Update(const Job& job, absl::Span<const Event> events) {
    return Update(job, events, nullptr);
  }

  // Adds a checkpoint; removes the rows of the checkpoints at its
  // removed_paths, whose folders are gone.
  virtual absl::Status AddCheckpoint(const std::string& job_id,
                                     const Checkpoint& checkpoint) = 0;

  // Removes the row with its events, labels and checkpoints. NotFound;
  // FailedPrecondition if the job has not ended, or if the spec of a job that
  // has not ended names a path in its folder.
  virtual absl::Status Delete(const std::string& id) = 0;

  // The id of a job that has not ended and needs the files of job `id`, or "".
  virtual absl::StatusOr<std::string> UserOf(const std::string& id) = 0;
  // Removes the rows of the job's checkpoints.
  virtual absl::Status ForgetCheckpoints(const std::string& job_id) = 0;

  // NotFound if there is no such job.
  virtual absl::StatusOr<Job> Get(const std::string& id) = 0;
  // Only the job's owner, even if the row cannot be read as a whole. NotFound
  // if there is no such job.
  virtual absl::StatusOr<std::string> OwnerOf(const std::string& id) = 0;
  // The states of those of the jobs that exist, by id, even if their rows
  // cannot be read as a whole.
  virtual absl::StatusOr<std::map<std::string, State>> StatesOf(
      absl::Span<const std::string> ids) = 0;
  virtual absl::StatusOr<std::optional<Job>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key) = 0;
  virtual absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) = 0;
  // The number of jobs that match, whatever the filter's `limit` and `after`.
  virtual absl::StatusOr<int64_t> CountListed(const ListFilter& filter) = 0;
  // Jobs whose id begins with `part`, and jobs whose id ends with `part` among
  // those that have not ended and the latest kRecentJobs. Newest first, at most
  // `limit`.
  static constexpr int kRecentJobs = 1000;
  virtual absl::StatusOr<std::vector<FoundJob>> FindByIdPart(
      const std::string& part, int limit) = 0;
  // The id of every job, in any order.
  virtual absl::StatusOr<std::vector<std::string>> Ids() = 0;
  virtual absl::StatusOr<std::map<State, int64_t>> CountByState() = 0;
  // The ids of the QUEUED and RUNNING jobs, oldest first, even if the rest of
  // their rows cannot be read.
  virtual absl::StatusOr<std::vector<std::string>> Unfinished() = 0;
  // Marks as FAILED, with `message`, a row for which Get returns DataLoss, and
  // drops its unreadable columns, so that the row can be read from now on.
  virtual absl::Status MarkUnreadable(const std::string& id,
                                      const std::string& message,
                                      absl::Time now) = 0;

  // At most `limit` events of one job after sequence `after`, in order.
  // Progress more than 1,000 sequences old is thinned: the store keeps every
  // tenth such event. Every other event is kept.
  virtual absl::StatusOr<std::vector<Event>> Events(const std::string& job_id,
                                                    int64_t after,
                                                    int limit) = 0;
  virtual absl::StatusOr<int64_t> LastSequence(const std::string& job_id) = 0;
  // Oldest first.
  virtual absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& job_id) = 0;

  // What is stored of each owner, in any order.
  virtual absl::StatusOr<std::vector<OwnerUse>> OwnerUses() = 0;
  virtual absl::Status ForgetUses(absl::Span<const std::string> owners) = 0;

  // Why no job may start, as SetDrain stored it; nullopt if jobs start.
  virtual absl::StatusOr<std::optional<std::string>> Drain() = 0;
  virtual absl::Status SetDrain(const std::optional<std::string>& why) = 0;

  virtual int64_t schema_version() const = 0;
};

// One end of a job, as the job was then; a retried job may end several times.
struct EndedJob {
  int64_t number = 0;  // grows from end to end, and is never used twice
  std::string job_id;
  State state = State::kFailed;  // a final one
  absl::Time time;
  std::string message;
};

// The ends of jobs that were not announced yet. An end is stored in the
// transaction that ends its job, and removed with the job. Thread-safe.
// Implemented by server/store.
class EndedJobs {
 public:
  virtual ~EndedJobs() = default;
  // The ends after `number`, oldest first, at most `limit`.
  virtual absl::StatusOr<std::vector<EndedJob>> After(int64_t number,
                                                      int limit) = 0;
  // Forgets an end. A power cut may bring the end back.
  virtual absl::Status Forget(int64_t number) = 0;
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
// Thread-safe. Implemented by server/store.
class PastJobs {
 public:
  virtual ~PastJobs() = default;

  // Unavailable if another write lasts longer than `patience`.
  virtual absl::Status PutAttempts(const std::vector<AttemptRow>& rows,
                                   absl::Duration patience) = 0;
  // The bodies, oldest first.
  virtual absl::StatusOr<std::vector<std::string>> Attempts(
      const std::string& job_id) = 0;

  // Keeps `job` as a past one; called right before its row is removed. `texts`:
  // what a text search covers in addition to the notes; `body`: see PastJob.
  virtual absl::Status Put(const Job& job, const std::string& texts,
                           const std::string& body) = 0;
  // The body of a deleted job; NotFound if there is none.
  virtual absl::StatusOr<std::string> BodyOf(const std::string& id) = 0;
  // Deleted jobs, as JobStore::List lists the others. DeadlineExceeded for a
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
  // NotFound if there neither is nor was such a job; ResourceExhausted if it
  // has limits::kJobNotes notes.
  virtual absl::Status AddNote(const std::string& id, const JobNote& note) = 0;
  // Removes first. NotFound likewise; ResourceExhausted, without a change, if
  // the job would have more than limits::kJobTags tags.
  virtual absl::Status Tag(const std::string& id,
                           const std::vector<std::string>& add,
                           const std::vector<std::string>& remove) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_STORE_H_
