// SPDX-License-Identifier: Apache-2.0
#include "server/hub/watched_pull.h"

#include <algorithm>
#include <utility>

namespace mpsd::hub {
namespace {

constexpr absl::Duration kWakeInterval = absl::Milliseconds(200);

}  // namespace

class WatchedPull::Look final : public models::PullWatch {
 public:
  explicit Look(std::shared_ptr<WatchedPull> pull) : pull_(std::move(pull)) {}
  ~Look() override {
    absl::MutexLock lock(&pull_->mutex_);
    pull_->wakes_.erase(this);
  }

  void Begin(std::function<void()> wake) {
    absl::MutexLock lock(&pull_->mutex_);
    pull_->wakes_[this] = std::move(wake);
    const int64_t told =
        pull_->notes_before_ + static_cast<int64_t>(pull_->notes_.size());
    next_note_ = std::max<int64_t>(told - 1, 0);
  }

  absl::StatusOr<std::optional<models::PullNews>> Next() override {
    WatchedPull& p = *pull_;
    absl::MutexLock lock(&p.mutex_);
    next_note_ = std::max(next_note_, p.notes_before_);
    const size_t at = static_cast<size_t>(next_note_ - p.notes_before_);
    models::PullNews news = p.latest_;
    if (at < p.notes_.size()) {
      news.note = p.notes_[at];
      ++next_note_;
      // With its last note a watch knows all.
      if (at + 1 == p.notes_.size()) seen_ = p.changes_;
      return news;
    }
    if (p.end_ && !p.end_->ok()) return *p.end_;
    if (p.end_) {
      if (ended_) return std::nullopt;
      ended_ = true;
      news.done = true;
      return news;
    }
    if (seen_ == p.changes_) return std::nullopt;
    seen_ = p.changes_;
    return news;
  }

 private:
  const std::shared_ptr<WatchedPull> pull_;
  int64_t next_note_ = 0;
  int64_t seen_ = 0;
  bool ended_ = false;
};

void WatchedPull::Tell(const models::PullNews& news) {
  std::vector<std::function<void()>> wakes;
  {
    absl::MutexLock lock(&mutex_);
    latest_ = news;
    latest_.note.clear();
    ++changes_;
    if (!news.note.empty()) {
      notes_.push_back(news.note);
      if (notes_.size() > kNotes) {
        notes_.pop_front();
        ++notes_before_;
      }
    } else if (clock_.Monotonic() - woken_ < kWakeInterval) {
      return;
    }
    wakes = Wakes();
  }
  for (const std::function<void()>& wake : wakes) wake();
}

void WatchedPull::End(absl::Status status) {
  std::vector<std::function<void()>> wakes;
  {
    absl::MutexLock lock(&mutex_);
    end_ = std::move(status);
    wakes = Wakes();
  }
  for (const std::function<void()>& wake : wakes) wake();
}

std::vector<std::function<void()>> WatchedPull::Wakes() {
  woken_ = clock_.Monotonic();
  std::vector<std::function<void()>> wakes;
  wakes.reserve(wakes_.size());
  for (const auto& [look, wake] : wakes_) wakes.push_back(wake);
  return wakes;
}

int64_t WatchedPull::BytesLeft() const {
  absl::MutexLock lock(&mutex_);
  return std::max<int64_t>(latest_.total_bytes - latest_.received_bytes, 0);
}

std::unique_ptr<models::PullWatch> WatchedPull::Watch(
    std::function<void()> wake) {
  auto look = std::make_unique<Look>(shared_from_this());
  look->Begin(std::move(wake));
  return look;
}

}  // namespace mpsd::hub
