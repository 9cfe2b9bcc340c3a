// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_PULLER_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_PULLER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/models/model_book.h"

namespace mpsd::rpc {

// Pulls whose news a test writes. Thread-safe.
class FakePuller : public models::Puller {
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
    return pulling_.count(id) != 0;
  }

  void Refuse(absl::Status why) {
    absl::MutexLock lock(&mutex_);
    refusal_ = std::move(why);
  }
  void SetPulling(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    pulling_.insert(id);
  }
  // Waits until somebody watches.
  void Tell(absl::StatusOr<models::PullNews> news) {
    std::function<void()> wake;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](FakePuller* fake) ABSL_NO_THREAD_SAFETY_ANALYSIS {
            return fake->wake_ != nullptr;
          },
          this));
      news_.push_back(std::move(news));
      wake = wake_;
    }
    wake();
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
  class Watch : public models::PullWatch {
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

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_PULLER_H_
