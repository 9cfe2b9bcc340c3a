// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_PLANNER_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_PLANNER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// Plans whose news a test writes. One thread at a time.
class FakePlanner final : public jobs::Planner {
 public:
  absl::StatusOr<std::unique_ptr<jobs::PlanWatch>> Plan(
      jobs::PlanRequest request, std::function<void()> wake) override {
    requests.push_back(std::move(request));
    if (!refusal.ok()) return refusal;
    this->wake = std::move(wake);
    ++watches;
    return std::make_unique<Watch>(*this);
  }

  std::vector<jobs::PlanRequest> requests;
  absl::Status refusal;  // of Plan
  std::deque<absl::StatusOr<jobs::PlanNews>> news;
  std::function<void()> wake;
  int watches = 0;  // alive

 private:
  class Watch final : public jobs::PlanWatch {
   public:
    explicit Watch(FakePlanner& fake) : fake_(fake) {}
    ~Watch() override { --fake_.watches; }
    absl::StatusOr<std::optional<jobs::PlanNews>> Next() override {
      if (fake_.news.empty()) return std::nullopt;
      absl::StatusOr<jobs::PlanNews> next = std::move(fake_.news.front());
      fake_.news.pop_front();
      if (!next.ok()) return next.status();
      return *std::move(next);
    }

   private:
    FakePlanner& fake_;
  };
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_PLANNER_H_
