// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_SQLITE_JOB_STORE_H_
#define MPSD_SERVER_STORE_SQLITE_JOB_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/jobs/job.h"
#include "server/jobs/job_store.h"
#include "server/store/connection.h"
#include "server/store/database.h"

namespace mpsd::store {

// The id of a job that has not ended and whose spec names the result of job
// `id`, or a path in that job's folder; or "".
std::string UserOf(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// As JobStore::StatesOf.
std::map<std::string, jobs::State> StatesOf(Connection& c,
                                            absl::Span<const std::string> ids)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// Removes the id of a job that succeeded and is about to be deleted from
// Job::after of the queued jobs, which no longer wait for it.
void ForgetSuccess(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// The part of jobs::JobStore for owners' use of the device. PutUse is a part of
// the caller's transaction and throws as Connection does; the others lock the
// connection.
void PutUse(Connection& connection, const jobs::OwnerUse& use)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());
absl::StatusOr<std::vector<jobs::OwnerUse>> ReadUses(Connection& connection);
absl::Status RemoveUses(Connection& connection,
                        absl::Span<const std::string> owners);

// jobs::JobStore over SQLite in WAL mode. A change is fsynced before its call
// returns (synchronous=FULL), except for progress, which comes with every
// optimizer step. A commit of progress skips the fsync (synchronous=NORMAL), so
// it costs a write to the page cache, survives kill -9, and reaches the disk
// with the next change of another kind. WAL frames are ordered: a power cut can
// lose the last of them, never one in the middle.
//
// A double that is NaN in Job::eval_loss_* or train_loss reads back as absent.
class SqliteJobStore : public jobs::JobStore {
 public:
  // `database` must outlive the store.
  explicit SqliteJobStore(Database& database) : database_(database) {}

  absl::Status Insert(const jobs::Job& job, const jobs::Event& first) override;
  using jobs::JobStore::Update;
  absl::Status Update(const jobs::Job& job,
                      absl::Span<const jobs::Event> events,
                      const jobs::OwnerUse* use) override;
  absl::Status AddCheckpoint(const std::string& job_id,
                             const jobs::Checkpoint& checkpoint) override;

  absl::Status Delete(const std::string& id) override;

  absl::StatusOr<std::string> UserOf(const std::string& id) override;
  absl::Status ForgetCheckpoints(const std::string& job_id) override;

  absl::StatusOr<jobs::Job> Get(const std::string& id) override;
  absl::StatusOr<std::string> OwnerOf(const std::string& id) override;
  absl::StatusOr<std::map<std::string, jobs::State>> StatesOf(
      absl::Span<const std::string> ids) override;
  absl::StatusOr<std::optional<jobs::Job>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key) override;
  absl::StatusOr<std::vector<jobs::Job>> List(
      const jobs::ListFilter& filter) override;
  absl::StatusOr<int64_t> CountListed(const jobs::ListFilter& filter) override;
  absl::StatusOr<std::vector<jobs::FoundJob>> FindByIdPart(
      const std::string& part, int limit) override;
  absl::StatusOr<std::vector<std::string>> Ids() override;
  absl::StatusOr<std::map<jobs::State, int64_t>> CountByState() override;
  absl::StatusOr<std::vector<std::string>> Unfinished() override;
  absl::Status MarkUnreadable(const std::string& id, const std::string& message,
                              absl::Time now) override;

  absl::StatusOr<std::vector<jobs::Event>> Events(const std::string& job_id,
                                                  int64_t after,
                                                  int limit) override;
  absl::StatusOr<int64_t> LastSequence(const std::string& job_id) override;
  absl::StatusOr<std::vector<jobs::Checkpoint>> Checkpoints(
      const std::string& job_id) override;

  absl::StatusOr<std::vector<jobs::OwnerUse>> OwnerUses() override;
  absl::Status ForgetUses(absl::Span<const std::string> owners) override;

  absl::StatusOr<std::optional<std::string>> Drain() override;
  absl::Status SetDrain(const std::optional<std::string>& why) override;

  int64_t schema_version() const override { return database_.schema_version(); }

 private:
  // Updates counts_ for a changed row: one job went from state `from` to `to`;
  // nullopt if the row is new or removed. Call it after the commit, with the
  // writer's lock held.
  void Count(std::optional<jobs::State> from, std::optional<jobs::State> to);

  Database& database_;
  absl::Mutex counts_mutex_;
  // nullopt until the counts are first requested.
  std::optional<std::map<jobs::State, int64_t>> counts_
      ABSL_GUARDED_BY(counts_mutex_);
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_SQLITE_JOB_STORE_H_
