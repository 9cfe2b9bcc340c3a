// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/meters.h"
#include "server/models/model_book.h"
#include "server/planner/doctor.h"
#include "server/planner/plan_maker.h"

// What a daemon in a test's process has instead of processes, the hub, a
// machine and a metrics port. Thread-safe, unless they say otherwise.
namespace mpsd::fakes {

// Plans whose news a test writes. One thread at a time.
class FakePlanner final : public planner::Planner {
 public:
  absl::StatusOr<std::unique_ptr<planner::PlanWatch>> Plan(
      planner::PlanRequest request, std::function<void()> wake) override {
    requests.push_back(std::move(request));
    if (!refusal.ok()) return refusal;
    this->wake = std::move(wake);
    ++watches;
    return std::make_unique<Watch>(*this);
  }

  absl::StatusOr<std::unique_ptr<planner::PlanWatch>> Merge(
      const jobs::Job&, const std::string&, const std::string&,
      std::function<void()>) override {
    return absl::UnimplementedError("no merges");
  }

  std::vector<planner::PlanRequest> requests;
  absl::Status refusal;  // of Plan
  std::deque<absl::StatusOr<planner::PlanNews>> news;
  std::function<void()> wake;
  int watches = 0;  // alive

 private:
  class Watch final : public planner::PlanWatch {
   public:
    explicit Watch(FakePlanner& fake) : fake_(fake) {}
    ~Watch() override { --fake_.watches; }
    absl::StatusOr<std::optional<planner::PlanNews>> Next() override {
      if (fake_.news.empty()) return std::nullopt;
      absl::StatusOr<planner::PlanNews> next = std::move(fake_.news.front());
      fake_.news.pop_front();
      if (!next.ok()) return next.status();
      return *std::move(next);
    }

   private:
    FakePlanner& fake_;
  };
};

// Pulls whose news a test writes.
class FakePuller final : public models::Puller {
 public:
  absl::StatusOr<std::unique_ptr<models::PullWatch>> Pull(
      const models::PullRequest& request, std::function<void()> wake) override {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
    if (!refusal_.ok()) return refusal_;
    wake_ = std::move(wake);
    return std::make_unique<Watch>(*this);
  }
  absl::Status Cancel(const models::PullRequest& request) override {
    absl::MutexLock lock(&mutex_);
    cancelled_.push_back(request);
    return refusal_;
  }
  bool IsPulling(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    return pulling_.contains(id);
  }
  bool CanPull() const override { return true; }

  void Refuse(absl::Status why) {
    absl::MutexLock lock(&mutex_);
    refusal_ = std::move(why);
  }
  void SetPulling(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    pulling_.insert(id);
  }
  // Also for a watch that begins later.
  void Report(absl::StatusOr<models::PullNews> news) {
    std::function<void()> wake;
    {
      absl::MutexLock lock(&mutex_);
      news_.push_back(std::move(news));
      wake = wake_;
    }
    if (wake) wake();
  }
  std::vector<models::PullRequest> requests() {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }
  std::vector<models::PullRequest> cancelled() {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

 private:
  class Watch final : public models::PullWatch {
   public:
    explicit Watch(FakePuller& fake) : fake_(fake) {}
    absl::StatusOr<std::optional<models::PullNews>> Next() override {
      absl::MutexLock lock(&fake_.mutex_);
      if (fake_.news_.empty()) return std::nullopt;
      absl::StatusOr<models::PullNews> news = std::move(fake_.news_.front());
      fake_.news_.pop_front();
      if (!news.ok()) return news.status();
      return *std::move(news);
    }

   private:
    FakePuller& fake_;
  };

  absl::Mutex mutex_;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::vector<models::PullRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<models::PullRequest> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> pulling_ ABSL_GUARDED_BY(mutex_);
  std::deque<absl::StatusOr<models::PullNews>> news_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
};

// A machine whose facts a test writes. One thread at a time.
class FakeExaminer final : public doctor::Examiner {
 public:
  absl::StatusOr<doctor::Facts> Examine(
      bool deep, const std::function<absl::Status()>&) override {
    was_deep = deep;
    return facts;
  }

  doctor::Facts facts;
  bool was_deep = false;
};

// Keeps what the server reports of its calls.
class FakeCalls final : public jobs::ExportedCalls {
 public:
  void MethodServed(const jobs::CallMethod&) override {}
  void CallStarted(const jobs::CallMethod& method) override {
    absl::MutexLock lock(&mutex_);
    ++open_[method.name];
  }
  void CallEnded(const jobs::CallMethod& method, absl::StatusCode code,
                 absl::Duration duration) override {
    absl::MutexLock lock(&mutex_);
    --open_[method.name];
    ended_.emplace_back(method.name, code);
    durations_.push_back(duration);
  }

  // Waits for the end of `calls` calls; the codes and methods of all so far.
  std::vector<std::pair<std::string, absl::StatusCode>> Await(
      size_t calls, absl::Duration patience = absl::Minutes(1)) {
    absl::MutexLock lock(&mutex_);
    const auto ended = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return ended_.size() >= calls;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&ended), patience);
    return ended_;
  }
  // Waits until so many calls of the method are in progress; false when they
  // are not within a minute.
  bool AwaitOpen(const std::string& method, int calls) {
    absl::MutexLock lock(&mutex_);
    const auto open = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return open_[method] == calls;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&open), absl::Minutes(1));
  }
  std::vector<absl::Duration> durations() {
    absl::MutexLock lock(&mutex_);
    return durations_;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<std::string, absl::StatusCode>> ended_
      ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration> durations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::fakes
