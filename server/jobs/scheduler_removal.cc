// SPDX-License-Identifier: Apache-2.0
// What the Scheduler does for those who remove jobs and for those who keep
// them. Files are removed without the lock.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/jobs/job_deletion.h"
#include "server/jobs/scheduler.h"

namespace mpsd::jobs {

absl::Status Scheduler::CheckStoredEnd(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  // Until Reap the row may still say RUNNING, and DeleteRow would advise to
  // cancel a job that has ended.
  if (attempt_ && attempt_->ended() && attempt_->id() == id) {
    return absl::UnavailableError(
        "the end of the job's last attempt is not stored yet: try again");
  }
  return absl::OkStatus();
}

void Scheduler::KeepRecord(const std::string& id) {
  if (!dependencies_.keep_record) return;
  absl::Status kept = dependencies_.keep_record(id);
  if (absl::IsResourceExhausted(kept) && dependencies_.files.MakeRoom()) {
    kept = dependencies_.keep_record(id);
  }
  if (kept.ok()) return;
  journal_.Add(
      "", absl::StrCat("job ", id, " goes without a record: ", kept.message()));
}

absl::StatusOr<int64_t> Scheduler::Delete(const std::string& id) {
  return Remove(id, [](const std::string&) { return absl::OkStatus(); });
}

absl::Status Scheduler::MayDelete(const std::string& id) {
  if (absl::Status s = CheckStoredEnd(id); !s.ok()) return s;
  return dependencies_.kept->MayDelete(id);
}

absl::StatusOr<int64_t> Scheduler::RemoveJob(const std::string& id,
                                             absl::Time ended) {
  return Remove(id, [&](const std::string&) {
    return dependencies_.kept->MayRemove(id, ended);
  });
}

absl::StatusOr<int64_t> Scheduler::Remove(
    const std::string& id,
    const std::function<absl::Status(const std::string&)>& may) {
  if (absl::Status s = CheckStoredEnd(id); !s.ok()) return s;
  {
    // Two deletions may both read a job's row. The later one would find no row
    // to remove, and take back the mark that the first still needs.
    absl::MutexLock turn(&deletions_);
    const absl::StatusOr<FolderClaims::Removal> removal = claims_.Remove(id);
    if (!removal.ok()) return removal.status();
    absl::Status status = may(id);
    if (status.ok()) {
      KeepRecord(id);
      status = DeleteRow(dependencies_.store, dependencies_.files, id);
    }
    if (!status.ok()) return status;
  }
  dependencies_.exported_metrics.JobDeleted(id);
  counts_.Ask();
  PublishCounts();
  journal_.Add("", absl::StrCat("job ", id, ": deleted"));
  journal_.Write();
  hub_.Wake(id);
  const int64_t freed = dependencies_.files.FinishDelete(id);
  if (dependencies_.folders != nullptr) dependencies_.folders->JobRemoved(id);
  return freed;
}

absl::StatusOr<int64_t> Scheduler::RemoveCheckpoints(const std::string& id,
                                                     absl::Time ended) {
  if (absl::Status s = CheckStoredEnd(id); !s.ok()) return s;
  // Until the folder is gone nobody deletes the job, or tries it again, whose
  // worker would read the checkpoints. Other jobs are deleted and started
  // meanwhile, however large the folder is.
  const absl::StatusOr<FolderClaims::Removal> removal = claims_.Remove(id);
  if (!removal.ok()) return removal.status();
  KeptJobs& kept = *dependencies_.kept;
  absl::Status forgotten = kept.ForgetCheckpoints(id, ended);
  if (absl::IsResourceExhausted(forgotten) && dependencies_.files.MakeRoom()) {
    forgotten = kept.ForgetCheckpoints(id, ended);
  }
  if (!forgotten.ok()) return forgotten;
  const absl::StatusOr<int64_t> freed =
      dependencies_.files.RemoveCheckpoints(id);
  if (!freed.ok()) return freed;
  if (dependencies_.folders != nullptr) {
    dependencies_.folders->CheckpointsRemoved(id);
  }
  journal_.Add("", absl::StrCat("job ", id, ": checkpoints removed"));
  journal_.Write();
  hub_.Wake(id);
  return freed;
}

absl::StatusOr<Job> Scheduler::SetPinned(const std::string& id, bool pinned) {
  // Whoever was told that a job is pinned finds its files.
  const absl::StatusOr<FolderClaims::Use> use = claims_.Take({id}, nullptr);
  if (!use.ok()) return use.status();
  absl::Status set = dependencies_.kept->SetPinned(id, pinned);
  if (!set.ok()) return set;
  hub_.Wake(id);
  return dependencies_.store.Get(id);
}

}  // namespace mpsd::jobs
