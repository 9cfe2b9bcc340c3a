// SPDX-License-Identifier: Apache-2.0
#include "core/train/queue_limit.h"

#include "core/base/check.h"

namespace mpsd::train {

void QueueLimit::Begin() {
  since_ = clock_.Monotonic();
  queued_ = 0;
}

void QueueLimit::Queued() {
  ++queued_;
  // micro_batch_ starts as infinite, so that the first call of a run waits, and
  // measures.
  if (queued_ * micro_batch_ < kAhead) return;
  device_.Synchronize();
  Note();
}

void QueueLimit::Done() {
  // The step's last micro-batch: no Queued follows it.
  ++queued_;
  Note();
}

void QueueLimit::Note() {
  base::CheckLess(0, queued_, "micro-batches since Begin");
  micro_batch_ = (clock_.Monotonic() - since_) / queued_;
  Begin();
}

}  // namespace mpsd::train
