// SPDX-License-Identifier: Apache-2.0
#include "client/top_caller.h"

#include <chrono>
#include <utility>

#include "client/retry_pause.h"

namespace mpsd::client {
namespace {

// A stream that ended because its job did is asked again for a retried job.
constexpr absl::Duration kBetweenEnds = absl::Seconds(2);
constexpr std::chrono::seconds kPatience{10};

}  // namespace

Caller::Caller(Address address)
    : connection_(std::move(address)),
      console_{nowhere_, nowhere_, terminal_, connection_, false} {
  terminal_.sleep = [this](absl::Duration pause) { Sleep(pause); };
}

void Caller::Break(bool stop) {
  absl::MutexLock lock(&mutex_);
  stopped_ = stopped_ || stop;
  broken_ = true;
  const Address& address = connection_.address();
  if (stop && address.tunnel != nullptr) address.tunnel->Break();
  if (context_ != nullptr) context_->TryCancel();
}

void Caller::Join() {
  if (thread_.joinable()) thread_.join();
}

void Caller::Start(std::function<void()> run) {
  thread_ = std::thread(std::move(run));
}

Caller::Call::Call(Caller& caller) : caller_(caller) {
  absl::MutexLock lock(&caller_.mutex_);
  caller_.context_ = &context_;
  if (caller_.broken_) context_.TryCancel();
}

Caller::Call::~Call() {
  absl::MutexLock lock(&caller_.mutex_);
  caller_.context_ = nullptr;
}

grpc::ClientContext* Caller::Call::hurried() {
  context_.set_deadline(std::chrono::system_clock::now() + kPatience);
  return &context_;
}

void Caller::Sleep(absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  const auto is_broken = [this] { return broken_.load(); };
  mutex_.AwaitWithTimeout(absl::Condition(&is_broken), pause);
}

bool Caller::Resume() {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return false;
  broken_ = false;
  return true;
}

void Follower::Follow(const std::string& id) {
  {
    absl::MutexLock lock(&wish_mutex_);
    wish_ = id;
  }
  Break(false);
}

void Follower::Run() {
  RetryPause pause(console());
  // A wish that comes after Resume breaks the loop within again.
  while (Resume()) {
    std::string id;
    {
      absl::MutexLock lock(&wish_mutex_);
      id = wish_;
    }
    Begin(id);
    while (!broken()) {
      if (id.empty()) {
        Sleep(absl::InfiniteDuration());
        continue;
      }
      bool received = false;
      const grpc::Status status = Stream(id, &received);
      if (received) pause.Restart();
      if (broken()) break;
      if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
        GiveUp(id, status);
        Sleep(absl::InfiniteDuration());
      } else if (status.ok()) {
        Sleep(kBetweenEnds);
      } else {
        pause.Wait();
      }
    }
  }
}

}  // namespace mpsd::client
