// SPDX-License-Identifier: Apache-2.0
#include "client/interrupt.h"

#include <utility>

namespace mpsd::client {

Interrupt::Listener::Listener(Interrupt* interrupt, std::function<void()> wake)
    : interrupt_(interrupt) {
  if (interrupt_ == nullptr) return;
  absl::MutexLock lock(&interrupt_->mutex_);
  outer_ = std::exchange(interrupt_->wake_, std::move(wake));
}

Interrupt::Listener::~Listener() {
  if (interrupt_ == nullptr) return;
  absl::MutexLock lock(&interrupt_->mutex_);
  interrupt_->wake_ = std::move(outer_);
}

bool Interrupt::Listener::raised() const {
  return interrupt_ != nullptr && interrupt_->raised();
}

bool Interrupt::Raise() {
  absl::MutexLock lock(&mutex_);
  if (raised_ || wake_ == nullptr) return false;
  raised_ = true;
  wake_();
  return true;
}

bool Interrupt::raised() const {
  absl::MutexLock lock(&mutex_);
  return raised_;
}

}  // namespace mpsd::client
