// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_MANAGER_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_MANAGER_H_

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// A queue in memory that the tests move by hand. Thread-safe.
class FakeManager : public jobs::JobManager, public jobs::JobReader {
 public:
  explicit FakeManager(std::filesystem::path folder = "")
      : folder_(std::move(folder)) {}

  static jobs::Job MakeJob(const std::string& id, jobs::State state,
                           const std::string& owner = "") {
    jobs::Job job;
    job.id = id;
    job.state = state;
    job.owner = owner;
    job.create_time = absl::FromUnixSeconds(1'700'000'000);
    job.spec_json = "{}";
    return job;
  }
  void Put(const jobs::Job& job) {
    absl::MutexLock lock(&mutex_);
    jobs_[job.id] = job;
  }
  void Put(const std::string& id, jobs::State state,
           const std::string& owner = "") {
    Put(MakeJob(id, state, owner));
  }
  void AddCheckpoint(const std::string& id, jobs::Checkpoint checkpoint) {
    absl::MutexLock lock(&mutex_);
    checkpoints_[id].push_back(std::move(checkpoint));
  }
  // Appends an event with the next sequence and wakes the subscribers.
  void Append(const std::string& id, decltype(jobs::Event::body) body) {
    {
      absl::MutexLock lock(&mutex_);
      std::vector<jobs::Event>& events = events_[id];
      if (const auto* changed = std::get_if<jobs::StateChanged>(&body)) {
        jobs_[id].state = changed->state;
      }
      const auto sequence = static_cast<int64_t>(events.size()) + 1;
      events.push_back(
          {id, sequence, absl::FromUnixSeconds(sequence), std::move(body)});
    }
    WakeAll(id);
  }
  void AppendProgress(const std::string& id, int64_t step) {
    jobs::Progress progress;
    progress.step = step;
    Append(id, progress);
  }
  void WakeAll(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    for (auto& [token, subscriber] : subscribers_) {
      if (subscriber.first == id) subscriber.second();
    }
  }
  // The job is gone, whatever its state.
  void Erase(const std::string& id) {
    {
      absl::MutexLock lock(&mutex_);
      jobs_.erase(id);
      events_.erase(id);
    }
    WakeAll(id);
  }
  int subscribers() const {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(subscribers_.size());
  }
  // False when there are not `count` subscribers within a minute.
  bool AwaitSubscribers(int count) const {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return static_cast<int>(subscribers_.size()) == count;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), absl::Minutes(1));
  }
  void PutRequest(const std::string& id, jobs::SubmitRequest request) {
    absl::MutexLock lock(&mutex_);
    requests_[id] = std::move(request);
  }
  // Runs within List, which may wait there.
  void OnList(std::function<void()> on_list) {
    absl::MutexLock lock(&mutex_);
    on_list_ = std::move(on_list);
  }
  // What Submit answers; else it is a new job "a" of the request's owner.
  void OnSubmit(std::function<
                absl::StatusOr<jobs::SubmitResult>(const jobs::SubmitRequest&)>
                    submit) {
    absl::MutexLock lock(&mutex_);
    submit_ = std::move(submit);
  }
  // Events throws it.
  void ThrowFromEvents(std::exception_ptr exception) {
    absl::MutexLock lock(&mutex_);
    events_exception_ = std::move(exception);
  }
  void SetInfo(jobs::ManagerInfo info) {
    absl::MutexLock lock(&mutex_);
    info_ = std::move(info);
  }
  void SetListing(jobs::QueueListing listing) {
    absl::MutexLock lock(&mutex_);
    listing_ = std::move(listing);
  }
  // What came with the last call that had it.
  struct Last {
    jobs::SubmitRequest submission;
    jobs::MoveTo move;
    jobs::UserLimits limits;  // of Retry or Move
    jobs::ListFilter filter;
    size_t queue_limit = 0;
  };
  Last last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }
  jobs::ListFilter last_filter() const { return last().filter; }

  absl::StatusOr<jobs::SubmitResult> Submit(
      const jobs::SubmitRequest& request) override {
    decltype(submit_) submit;
    {
      absl::MutexLock lock(&mutex_);
      last_.submission = request;
      submit = submit_;
    }
    if (submit) return submit(request);  // may wait
    return jobs::SubmitResult{MakeJob("a", jobs::State::kQueued, request.owner),
                              false};
  }
  absl::StatusOr<jobs::Job> Get(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    return Find(id);
  }
  absl::StatusOr<jobs::SubmitRequest> RequestOf(
      const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    if (absl::Status found = Find(id).status(); !found.ok()) return found;
    const auto request = requests_.find(id);
    if (request == requests_.end()) {
      return absl::FailedPreconditionError("no request was kept");
    }
    return request->second;
  }
  absl::StatusOr<std::string> OwnerOf(const std::string& id) override {
    absl::StatusOr<jobs::Job> job = Get(id);
    if (!job.ok()) return job.status();
    return job->owner;
  }
  absl::StatusOr<std::vector<jobs::Job>> List(
      const jobs::ListFilter& filter) override {
    std::function<void()> on_list;
    {
      absl::MutexLock lock(&mutex_);
      on_list = on_list_;
    }
    if (on_list) on_list();
    absl::MutexLock lock(&mutex_);
    last_.filter = filter;
    std::vector<jobs::Job> listed;
    for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
      if (filter.after && it->first >= filter.after->id) continue;
      if (static_cast<int>(listed.size()) == filter.limit) break;
      listed.push_back(it->second);
    }
    return listed;
  }
  // Takes no notice of the filter, as List does.
  absl::StatusOr<int64_t> CountListed(const jobs::ListFilter&) override {
    absl::MutexLock lock(&mutex_);
    return static_cast<int64_t>(jobs_.size());
  }
  absl::StatusOr<std::vector<jobs::FoundJob>> FindByIdPart(
      const std::string& part, int limit) override {
    absl::MutexLock lock(&mutex_);
    std::vector<jobs::FoundJob> found;
    for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
      if (!it->first.starts_with(part) && !it->first.ends_with(part)) continue;
      if (static_cast<int>(found.size()) == limit) break;
      found.push_back(
          {it->first, it->second.name, it->second.state, it->second.owner});
    }
    return found;
  }
  absl::StatusOr<jobs::Job> Cancel(const std::string& id, bool now) override {
    absl::MutexLock lock(&mutex_);
    if (jobs_.count(id) == 0) return Find(id);
    jobs_[id].cancel_requested = true;
    if (now) jobs_[id].state = jobs::State::kCancelled;
    return jobs_[id];
  }
  absl::StatusOr<jobs::Job> Hold(const std::string& id,
                                 const std::string& why) override {
    return ChangeQueued(id, [&](jobs::Job& job) {
      job.held = true;
      job.hold_reason = why;
    });
  }
  absl::StatusOr<jobs::Job> Release(const std::string& id) override {
    return ChangeQueued(id, [](jobs::Job& job) { job.held = false; });
  }
  absl::StatusOr<jobs::Job> Move(const std::string& id, const jobs::MoveTo& to,
                                 const jobs::UserLimits& limits) override {
    return ChangeQueued(id, [&](jobs::Job& job) {
      last_.move = to;
      last_.limits = limits;
      if (to.where == jobs::MoveTo::Where::kPriority) {
        job.priority = to.priority;
      }
    });
  }
  absl::StatusOr<jobs::Job> Retry(const std::string& id, bool from_scratch,
                                  const jobs::UserLimits& limits) override {
    absl::MutexLock lock(&mutex_);
    last_.limits = limits;
    if (jobs_.count(id) == 0) return Find(id);
    if (jobs_[id].state == jobs::State::kQueued) {
      return absl::FailedPreconditionError("it is QUEUED");
    }
    jobs_[id].state = jobs::State::kQueued;
    jobs_[id].fresh = from_scratch;
    return jobs_[id];
  }
  absl::Status DrainQueue(const std::string& why) override {
    absl::MutexLock lock(&mutex_);
    info_.drained = true;
    info_.hold = why;
    info_.hold_reason = "drained";
    return absl::OkStatus();
  }
  absl::Status UndrainQueue() override {
    absl::MutexLock lock(&mutex_);
    info_.drained = false;
    info_.hold = info_.hold_reason = "";
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Delete(const std::string& id) override {
    if (absl::Status may = MayDelete(id); !may.ok()) return may;
    Erase(id);
    return 42;
  }
  absl::Status MayDelete(const std::string& id) override {
    absl::StatusOr<jobs::Job> job = Get(id);
    if (!job.ok()) return job.status();
    if (!jobs::IsFinal(job->state)) {
      return absl::FailedPreconditionError("it has not ended");
    }
    if (job->pinned) return absl::FailedPreconditionError("it is pinned");
    return absl::OkStatus();
  }
  absl::StatusOr<jobs::Job> SetPinned(const std::string& id,
                                      bool pinned) override {
    absl::MutexLock lock(&mutex_);
    if (jobs_.count(id) != 0) jobs_[id].pinned = pinned;
    return Find(id);
  }
  absl::StatusOr<std::vector<jobs::Checkpoint>> Checkpoints(
      const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<jobs::Job> job = Find(id);
    if (!job.ok()) return job.status();
    return checkpoints_[id];
  }
  std::optional<int32_t> QueuePosition(const std::string&) override {
    return 4;
  }
  jobs::QueueListing Queue(size_t limit) override {
    absl::MutexLock lock(&mutex_);
    last_.queue_limit = limit;
    return listing_;
  }
  jobs::QueueListing QueueBefore(const std::string&, int32_t,
                                 size_t limit) override {
    return Queue(limit);
  }
  int64_t QueuedOf(const std::string& owner) override {
    absl::MutexLock lock(&mutex_);
    return std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
      return entry.second.owner == owner &&
             entry.second.state == jobs::State::kQueued;
    });
  }
  absl::StatusOr<std::vector<jobs::Event>> Events(const std::string& id,
                                                  int64_t after) override {
    absl::MutexLock lock(&mutex_);
    if (events_exception_) std::rethrow_exception(events_exception_);
    absl::StatusOr<jobs::Job> job = Find(id);
    if (!job.ok()) return job.status();
    const std::vector<jobs::Event>& events = events_[id];
    const auto first = std::min<size_t>(after, events.size());
    const auto last = std::min<size_t>(first + 1000, events.size());
    return std::vector<jobs::Event>(events.begin() + first,
                                    events.begin() + last);
  }
  absl::StatusOr<int64_t> LastSequence(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    if (absl::Status found = Find(id).status(); !found.ok()) return found;
    return static_cast<int64_t>(events_[id].size());
  }
  int64_t Subscribe(const std::string& id,
                    std::function<void()> wake) override {
    absl::MutexLock lock(&mutex_);
    wake();  // "possibly at once"
    subscribers_[++last_token_] = {id, std::move(wake)};
    return last_token_;
  }
  void Unsubscribe(int64_t token) override {
    absl::MutexLock lock(&mutex_);
    subscribers_.erase(token);
  }
  jobs::Pause PauseOf(const std::string&) override {
    absl::MutexLock lock(&mutex_);
    return info_.pause;
  }
  std::string HoldOf(const std::string&) override {
    absl::MutexLock lock(&mutex_);
    return info_.hold;
  }
  jobs::ManagerInfo Info() override {
    absl::MutexLock lock(&mutex_);
    return info_;
  }
  std::string LogPath(const std::string& id) const override {
    return (folder_ / id / "job.log").string();
  }
  std::string JobFolder(const std::string& id) const override {
    return (folder_ / id).string();
  }
  std::string RunFolder(const std::string& id) const override {
    return (folder_ / id / "out").string();
  }

 private:
  absl::StatusOr<jobs::Job> Find(const std::string& id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    auto found = jobs_.find(id);
    if (found == jobs_.end()) return absl::NotFoundError("no job " + id);
    return found->second;
  }

  absl::StatusOr<jobs::Job> ChangeQueued(
      const std::string& id, const std::function<void(jobs::Job&)>& change) {
    absl::MutexLock lock(&mutex_);
    if (jobs_.count(id) == 0) return Find(id);
    if (jobs_[id].state != jobs::State::kQueued) {
      return absl::FailedPreconditionError("it is not QUEUED");
    }
    change(jobs_[id]);
    return jobs_[id];
  }

  const std::filesystem::path folder_;
  mutable absl::Mutex mutex_;
  std::map<std::string, jobs::Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, jobs::SubmitRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<jobs::Event>> events_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<jobs::Checkpoint>> checkpoints_
      ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, std::pair<std::string, std::function<void()>>> subscribers_
      ABSL_GUARDED_BY(mutex_);
  int64_t last_token_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<absl::StatusOr<jobs::SubmitResult>(const jobs::SubmitRequest&)>
      submit_ ABSL_GUARDED_BY(mutex_);
  std::exception_ptr events_exception_ ABSL_GUARDED_BY(mutex_);
  jobs::ManagerInfo info_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_list_ ABSL_GUARDED_BY(mutex_);
  jobs::QueueListing listing_ ABSL_GUARDED_BY(mutex_);
  Last last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_MANAGER_H_
