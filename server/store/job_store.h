// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/store/job.h"

namespace mpsd::store {
class Database;
}  // namespace mpsd::store

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

// A job as users name it: by the first or last characters of its id, or by its
// whole name.
struct JobText {
  std::string id_part = "";  // in upper case; empty: by its name alone
  std::string name = "";     // empty: by its id alone
  std::string owner = "";    // whose names count; empty: everyone's
};

struct FoundJob {
  std::string id;
  std::string name;
  State state = State::kQueued;
  std::string owner = "";
};

// Stores jobs. Every call that changes something is one transaction, and
// durable when it returns OK. Thread-safe.
//
// SQLite is in WAL mode. A change is fsynced before its call returns
// (synchronous=FULL), except for progress, which comes with every optimizer
// step. A commit of progress skips the fsync (synchronous=NORMAL), so it costs
// a write to the page cache, survives kill -9, and reaches the disk with the
// next change of another kind. WAL frames are ordered: a power cut can lose the
// last of them, never one in the middle.
//
// A double that is NaN in Job::eval_loss_* or train_loss reads back as absent.
class JobStore {
 public:
  // `database` must outlive the store.
  explicit JobStore(store::Database& database) : database_(database) {}

  // Adds a row and its first event. AlreadyExists if the owner has used the
  // idempotency key, whatever the request.
  absl::Status Insert(const Job& job, const Event& first);

  // Replaces the row of job.id and appends `events`, whose sequences are
  // already set. FailedPrecondition if the stored state cannot become
  // job.state. A call that changes neither state nor cancel_requested and whose
  // only events are Progress survives a kill of mpsd at once, but survives a
  // power cut only once a later call of another kind has returned.
  // With `use` the same transaction replaces what is stored of that owner.
  absl::Status Update(const Job& job, absl::Span<const Event> events,
                      const OwnerUse* use = nullptr);

  // Adds a checkpoint; removes the rows of the checkpoints at its
  // removed_paths, whose folders are gone.
  absl::Status AddCheckpoint(const std::string& job_id,
                             const Checkpoint& checkpoint);

  // Removes the row with its events, labels and checkpoints. NotFound;
  // FailedPrecondition if the job has not ended, or if a job that has not ended
  // uses it (Job::uses).
  absl::Status Delete(const std::string& id);

  // FailedPrecondition if a job that has not ended uses job `id`.
  absl::Status CheckUnused(const std::string& id);
  // Removes the rows of the job's checkpoints.
  absl::Status ForgetCheckpoints(const std::string& job_id);

  // NotFound if there is no such job.
  absl::StatusOr<Job> Get(const std::string& id);
  // Only the job's owner, even if the row cannot be read as a whole. NotFound
  // if there is no such job.
  absl::StatusOr<std::string> OwnerOf(const std::string& id);
  // The states of those of the jobs that exist, by id, even if their rows
  // cannot be read as a whole.
  absl::StatusOr<std::map<std::string, State>> StatesOf(
      absl::Span<const std::string> ids);
  absl::StatusOr<std::optional<Job>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key);
  // The spec's `model`, a folder, of the owner's last job with that Job::model;
  // "" if there is none.
  absl::StatusOr<std::string> LastModelFolder(const std::string& owner,
                                              const std::string& model);
  absl::StatusOr<std::vector<Job>> List(const ListFilter& filter);
  // The number of jobs that match, whatever the filter's `limit` and `after`.
  absl::StatusOr<int64_t> CountListed(const ListFilter& filter);
  // The jobs that `text` may mean. Newest first, at most `limit`.
  absl::StatusOr<std::vector<FoundJob>> FindByText(const JobText& text,
                                                   int limit);
  // The id of every job, in any order.
  absl::StatusOr<std::vector<std::string>> Ids();
  absl::StatusOr<std::map<State, int64_t>> CountByState();
  // The ids of the QUEUED and RUNNING jobs, oldest first, even if the rest of
  // their rows cannot be read.
  absl::StatusOr<std::vector<std::string>> Unfinished();
  // Marks as FAILED, with `message`, a row for which Get returns DataLoss, and
  // drops its unreadable columns, so that the row can be read from now on.
  absl::Status MarkUnreadable(const std::string& id, const std::string& message,
                              absl::Time now);

  // At most `limit` events of one job after sequence `after`, in order.
  // Progress more than 1,000 sequences old is thinned: the store keeps every
  // tenth such event. Every other event is kept.
  absl::StatusOr<std::vector<Event>> Events(const std::string& job_id,
                                            int64_t after, int limit);
  absl::StatusOr<int64_t> LastSequence(const std::string& job_id);
  // Oldest first.
  absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& job_id);

  // What is stored of each owner, in any order.
  absl::StatusOr<std::vector<OwnerUse>> OwnerUses();
  absl::Status ForgetUses(absl::Span<const std::string> owners);

  // Why no job may start, as SetDrain stored it; nullopt if jobs start.
  absl::StatusOr<std::optional<std::string>> Drain();
  absl::Status SetDrain(const std::optional<std::string>& why);

 private:
  // Updates counts_ for a changed row: one job went from state `from` to `to`;
  // nullopt if the row is new or removed. Call it after the commit, with the
  // writer's lock held.
  void Count(std::optional<State> from, std::optional<State> to);

  store::Database& database_;
  absl::Mutex counts_mutex_;
  // nullopt until the counts are first requested.
  std::optional<std::map<State, int64_t>> counts_
      ABSL_GUARDED_BY(counts_mutex_);
};

}  // namespace mpsd::jobs
