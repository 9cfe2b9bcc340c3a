// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_QUEUE_LIMIT_H_
#define MPSD_CORE_TRAIN_QUEUE_LIMIT_H_

#include <cstdint>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/device/device.h"

namespace mpsd::train {

// Keeps the host at most one micro-batch ahead of the device or, if
// micro-batches are short, as many as take kAhead. A GPU lets the host queue a
// whole step within a second and then computes for minutes: without the limit
// the host would count unfinished work as done, and a stop would wait for all
// of it. Waiting so rarely costs no measurable time. Used only by the training
// thread.
class QueueLimit {
 public:
  static constexpr absl::Duration kAhead = absl::Seconds(2);

  // `device` and `clock` must outlive this object.
  explicit QueueLimit(device::Device& device,
                      const base::Clock& clock = base::Clock::Real())
      : device_(device), clock_(clock) {}

  // A step begins; the queue is empty.
  void Begin();
  // The host has queued a micro-batch and is about to queue another one. May
  // wait for the device.
  void Queued();
  // The caller has waited for the device, and so for the step's last
  // micro-batch.
  void Done();

 private:
  // Measures the time a micro-batch takes, now that the device is idle.
  void Note();

  device::Device& device_;
  const base::Clock& clock_;
  absl::Duration since_;  // monotonic time when the device was last idle
  int64_t queued_ = 0;    // micro-batches queued since `since_`
  // Time of one micro-batch, as last measured.
  absl::Duration micro_batch_ = absl::InfiniteDuration();
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_QUEUE_LIMIT_H_
