// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_run.h"

#include <cstddef>

namespace mpsd::planner {
namespace {

constexpr size_t kWaitingStages = 32;

}  // namespace

void PlanRun::Start(Make make) {
  thread_ = std::thread([this, make = std::move(make)] {
    absl::StatusOr<jobs::FinishedPlan> plan = make(*this);
    {
      absl::MutexLock lock(&mutex_);
      if (plan.ok()) {
        news_.push_back({"", *std::move(plan)});
      } else {
        error_ = plan.status();
      }
    }
    Wake();
    ended_ = true;
  });
}

void PlanRun::TellStage(std::string stage) {
  {
    absl::MutexLock lock(&mutex_);
    if (news_.size() == kWaitingStages) news_.pop_front();
    news_.push_back({std::move(stage), std::nullopt});
  }
  Wake();
}

absl::StatusOr<std::optional<jobs::PlanNews>> PlanRun::Next() {
  absl::MutexLock lock(&mutex_);
  if (news_.empty()) {
    if (!error_.ok()) return error_;
    return std::nullopt;
  }
  jobs::PlanNews next = std::move(news_.front());
  news_.pop_front();
  return next;
}

absl::Status PlanRun::Wanted() const {
  return given_up_ ? absl::CancelledError("nobody waits for the plan")
                   : absl::OkStatus();
}

void PlanRun::Wake() {
  std::function<void()> wake;
  {
    absl::MutexLock lock(&mutex_);
    wake = wake_;
  }
  if (wake && !given_up_) wake();
}

void PlanRun::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace mpsd::planner
