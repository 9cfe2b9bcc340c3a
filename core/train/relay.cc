// SPDX-License-Identifier: Apache-2.0
#include "core/train/relay.h"

#include <utility>

#include "core/base/check.h"

namespace mpsd::train {

void Relay::OnStage(const std::string& stage, double fraction) {
  if (on_own_thread()) {
    to_.OnStage(stage, fraction);
    return;
  }
  absl::MutexLock lock(&mutex_);
  // The same stage, further on: only its latest progress is worth telling, and
  // the queue stays short.
  const bool goes_on = !waiting_.empty() && !waiting_.back().is_warning &&
                       waiting_.back().text == stage;
  if (goes_on) {
    waiting_.back().fraction = fraction;
  } else {
    waiting_.push_back({false, stage, fraction});
  }
}

void Relay::TellWarning(const std::string& text) {
  if (on_own_thread()) {
    to_.OnWarning(text);
    return;
  }
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({true, text, 0});
}

void Relay::Tell() {
  base::Check(on_own_thread(), "the run's own thread tells");
  // The observer is called without the lock: it may block, and the other thread
  // must not wait for it.
  std::deque<Saying> all;
  {
    absl::MutexLock lock(&mutex_);
    all.swap(waiting_);
  }
  for (const Saying& saying : all) {
    if (saying.is_warning) {
      to_.OnWarning(saying.text);
    } else {
      to_.OnStage(saying.text, saying.fraction);
    }
  }
}

}  // namespace mpsd::train
