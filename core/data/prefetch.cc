// SPDX-License-Identifier: Apache-2.0
#include "core/data/prefetch.h"

#include <utility>

#include "core/base/check.h"

namespace mpsd::data {

Prefetcher::Prefetcher(const Source& source, LoaderOptions options)
    : loader_(source, options), steps_per_epoch_(loader_.steps_per_epoch()) {}

Prefetcher::~Prefetcher() { Stop(); }

absl::StatusOr<std::vector<Batch>> Prefetcher::NextStep() {
  // Started by the first step, not by the constructor: a resumed run seeks
  // first, and would wait for a step that is never used.
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  std::optional<Step> step;
  {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return ahead_.has_value();
    };
    mutex_.Await(absl::Condition(&ready));
    step.swap(ahead_);
  }
  base::Check(step.has_value(), "the thread leaves a step");
  // The caller's position in the data; loader_ may be ahead already.
  cursor_ = step->after;
  if (!step->batches.ok()) Stop();  // the thread ended after the error
  return std::move(step->batches);
}

void Prefetcher::Run() {
  while (true) {
    Step step{loader_.NextStep(), {}};
    // Read here, because only this thread may use loader_ while it runs.
    step.after = loader_.cursor();
    const bool failed = !step.batches.ok();
    // The step above is made before the thread waits for room: while one step
    // waits to be taken, the next is made.
    absl::MutexLock lock(&mutex_);
    const auto free = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stop_ || !ahead_.has_value();
    };
    mutex_.Await(absl::Condition(&free));
    if (stop_) return;
    base::Check(!ahead_.has_value(), "one step is ahead at most");
    ahead_ = std::move(step);
    if (failed) return;
  }
}

void Prefetcher::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  // Joined without the mutex, which the thread locks before it reads stop_.
  thread_.join();
  absl::MutexLock lock(&mutex_);
  stop_ = false;
  ahead_.reset();
  // The loader is ahead of the steps taken: seek back to them.
  loader_.Seek(cursor_);
}

void Prefetcher::Seek(const Cursor& cursor) {
  Stop();
  loader_.Seek(cursor);
  cursor_ = loader_.cursor();
}

double Prefetcher::epoch_fraction() const {
  return static_cast<double>(cursor_.epoch) +
         static_cast<double>(cursor_.step_in_epoch) /
             static_cast<double>(steps_per_epoch_);
}

}  // namespace mpsd::data
