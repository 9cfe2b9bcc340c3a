// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_JOB_STORE_H_
#define MPSD_TESTS_FAKES_FAKE_JOB_STORE_H_

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/job_store.h"

namespace mpsd::fakes {

// jobs::JobStore in memory, strict about what callers owe it: states that may
// follow each other, sequences without gaps. Thread-safe.
class FakeJobStore final : public jobs::JobStore {
 public:
  absl::Status Insert(const jobs::Job& job, const jobs::Event& first) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    for (const auto& [id, row] : rows_) {
      if (!job.idempotency_key.empty() && row.job.owner == job.owner &&
          row.job.idempotency_key == job.idempotency_key) {
        return absl::AlreadyExistsError("the key is taken");
      }
    }
    if (first.sequence != 1) return absl::InternalError("first event is not 1");
    rows_[job.id] = {job, {first}, {}};
    return absl::OkStatus();
  }

  using jobs::JobStore::Update;
  absl::Status Update(const jobs::Job& job,
                      absl::Span<const jobs::Event> events,
                      const jobs::OwnerUse* use) override {
    {
      absl::MutexLock lock(&stall_mutex_);
      ++waiting_;
      stall_mutex_.Await(absl::Condition(
          +[](bool* stalls) { return !*stalls; }, &stalls_));
      --waiting_;
    }
    absl::MutexLock lock(&mutex_);
    ++updates_;
    if (!failure_.ok()) return failure_;
    auto row = rows_.find(job.id);
    if (row == rows_.end()) return absl::NotFoundError(job.id);
    const jobs::State from = row->second.job.state;
    if (from != job.state && !jobs::CanTransition(from, job.state)) {
      return absl::FailedPreconditionError(
          absl::StrCat(std::string(Name(from)), " cannot become ",
                       std::string(Name(job.state))));
    }
    for (const jobs::Event& event : events) {
      if (event.sequence !=
          static_cast<int64_t>(row->second.events.size()) + 1) {
        return absl::InternalError("a gap in the events");
      }
      row->second.events.push_back(event);
    }
    row->second.job = job;
    if (use != nullptr) uses_[use->owner] = *use;
    return absl::OkStatus();
  }

  absl::Status AddCheckpoint(const std::string& job_id,
                             const jobs::Checkpoint& checkpoint) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    if (checkpoint.step < 0) return absl::InternalError("no step");
    const auto& removed = checkpoint.removed_paths;
    auto& list = rows_[job_id].checkpoints;
    std::erase_if(list, [&](const jobs::Checkpoint& c) {
      return std::count(removed.begin(), removed.end(), c.path) > 0 ||
             c.path == checkpoint.path;
    });
    list.push_back(checkpoint);
    list.back().removed_paths.clear();
    return absl::OkStatus();
  }

  absl::Status Delete(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    auto row = rows_.find(id);
    if (row == rows_.end()) return absl::NotFoundError("no job " + id);
    if (!jobs::IsFinal(row->second.job.state)) {
      return absl::FailedPreconditionError(id + " has not ended");
    }
    rows_.erase(row);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> UserOf(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    for (const auto& [user, row] : rows_) {
      const std::string folder = absl::StrCat("/jobs/", id, "/");
      if (user != id && !jobs::IsFinal(row.job.state) &&
          row.job.spec_json.find(folder) != std::string::npos) {
        return user;
      }
    }
    return "";
  }

  absl::Status ForgetCheckpoints(const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    rows_[job_id].checkpoints.clear();
    return absl::OkStatus();
  }

  absl::StatusOr<jobs::Job> Get(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    auto row = rows_.find(id);
    if (row == rows_.end()) return absl::NotFoundError("no job " + id);
    if (unreadable_.contains(id)) {
      return absl::DataLossError("the row of " + id + " makes no sense");
    }
    return row->second.job;
  }

  absl::StatusOr<std::string> OwnerOf(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    auto row = rows_.find(id);
    if (row == rows_.end()) return absl::NotFoundError("no job " + id);
    return row->second.job.owner;
  }

  absl::StatusOr<std::map<std::string, jobs::State>> StatesOf(
      absl::Span<const std::string> ids) override {
    absl::MutexLock lock(&mutex_);
    std::map<std::string, jobs::State> states;
    for (const std::string& id : ids) {
      const auto row = rows_.find(id);
      if (row != rows_.end()) states[id] = row->second.job.state;
    }
    return states;
  }

  absl::StatusOr<std::optional<jobs::Job>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key) override {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, row] : rows_) {
      const jobs::Job& job = row.job;
      if (job.owner == owner && job.idempotency_key == key) return {job};
    }
    return std::optional<jobs::Job>();
  }

  absl::StatusOr<std::vector<jobs::Job>> List(
      const jobs::ListFilter& filter) override {
    absl::MutexLock lock(&mutex_);
    std::vector<jobs::Job> jobs;
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      const jobs::Job& job = row->second.job;
      const bool state_fits =
          filter.states.empty() ||
          std::count(filter.states.begin(), filter.states.end(), job.state);
      const bool before = !filter.after || job.id < filter.after->id;
      const bool owner = filter.owner.empty() || filter.owner == job.owner;
      if (state_fits && before && owner &&
          jobs.size() < static_cast<size_t>(filter.limit)) {
        jobs.push_back(job);
      }
    }
    return jobs;
  }

  absl::StatusOr<int64_t> CountListed(const jobs::ListFilter& filter) override {
    jobs::ListFilter all = filter;
    all.limit = 1 << 30;
    all.after.reset();
    return static_cast<int64_t>(List(all)->size());
  }

  absl::StatusOr<std::vector<jobs::FoundJob>> FindByIdPart(
      const std::string& part, int limit) override {
    absl::MutexLock lock(&mutex_);
    std::vector<jobs::FoundJob> found;
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
      const jobs::Job& job = row->second.job;
      if ((job.id.starts_with(part) || job.id.ends_with(part)) &&
          found.size() < static_cast<size_t>(limit)) {
        found.push_back({job.id, job.name, job.state});
      }
    }
    return found;
  }

  absl::StatusOr<std::vector<std::string>> Ids() override {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> ids;
    for (const auto& [id, row] : rows_) ids.push_back(id);
    return ids;
  }

  absl::StatusOr<std::map<jobs::State, int64_t>> CountByState() override {
    absl::MutexLock lock(&mutex_);
    std::map<jobs::State, int64_t> counts;
    for (const auto& [id, row] : rows_) ++counts[row.job.state];
    return counts;
  }

  absl::StatusOr<std::vector<std::string>> Unfinished() override {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> ids;
    for (const auto& [id, row] : rows_) {
      if (!jobs::IsFinal(row.job.state)) ids.push_back(id);
    }
    return ids;
  }

  absl::Status MarkUnreadable(const std::string& id, const std::string& message,
                              absl::Time now) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    Row& row = rows_[id];
    unreadable_.erase(id);
    row.job.state = jobs::State::kFailed;
    row.job.message = message;
    row.job.end_time = now;
    row.events.push_back({id, static_cast<int64_t>(row.events.size()) + 1, now,
                          jobs::StateChanged{jobs::State::kFailed, message}});
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<jobs::Event>> Events(const std::string& job_id,
                                                  int64_t after,
                                                  int limit) override {
    absl::MutexLock lock(&mutex_);
    std::vector<jobs::Event> events;
    const Row row = Find(job_id);
    for (const jobs::Event& event : row.events) {
      if (event.sequence > after &&
          events.size() < static_cast<size_t>(limit)) {
        events.push_back(event);
      }
    }
    return events;
  }

  absl::StatusOr<int64_t> LastSequence(const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    if (!rows_.contains(job_id)) return absl::NotFoundError("no such job");
    return static_cast<int64_t>(Find(job_id).events.size());
  }

  absl::StatusOr<std::vector<jobs::Checkpoint>> Checkpoints(
      const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    return Find(job_id).checkpoints;
  }

  absl::StatusOr<std::vector<jobs::OwnerUse>> OwnerUses() override {
    absl::MutexLock lock(&mutex_);
    std::vector<jobs::OwnerUse> uses;
    for (const auto& [owner, use] : uses_) uses.push_back(use);
    return uses;
  }
  absl::Status ForgetUses(absl::Span<const std::string> owners) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    for (const std::string& owner : owners) uses_.erase(owner);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<std::string>> Drain() override {
    absl::MutexLock lock(&mutex_);
    return drain_;
  }
  absl::Status SetDrain(const std::optional<std::string>& why) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    drain_ = why;
    return absl::OkStatus();
  }

  int64_t schema_version() const override { return 1; }

  // Every change fails with `status` until it is OK again.
  void FailWith(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    failure_ = std::move(status);
  }
  // Get calls it DataLoss until it is marked.
  void SpoilRow(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    unreadable_.insert(id);
  }
  // Update does not return while it `stalls`, as of a disk that hangs.
  void Stall(bool stalls) {
    absl::MutexLock lock(&stall_mutex_);
    stalls_ = stalls;
  }
  int stalled() const {  // calls that wait so
    absl::MutexLock lock(&stall_mutex_);
    return waiting_;
  }
  int updates() const {
    absl::MutexLock lock(&mutex_);
    return updates_;
  }

 private:
  struct Row {
    jobs::Job job;
    std::vector<jobs::Event> events;
    std::vector<jobs::Checkpoint> checkpoints;
  };
  Row Find(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto row = rows_.find(id);
    return row == rows_.end() ? Row() : row->second;
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, Row> rows_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, jobs::OwnerUse> uses_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> unreadable_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> drain_ ABSL_GUARDED_BY(mutex_);
  int updates_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable absl::Mutex stall_mutex_;
  bool stalls_ ABSL_GUARDED_BY(stall_mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(stall_mutex_) = 0;
};

}  // namespace mpsd::fakes

#endif  // MPSD_TESTS_FAKES_FAKE_JOB_STORE_H_
