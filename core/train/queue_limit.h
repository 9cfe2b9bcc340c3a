// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_QUEUE_LIMIT_H_
#define MPSD_CORE_TRAIN_QUEUE_LIMIT_H_

#include <cstdint>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/device/device.h"

namespace mpsd::train {

// A GPU lets the host queue a whole step within a second and then computes for
// minutes. This keeps it from getting further ahead than one micro-batch, or
// than kAhead of them where they are short: what the host counts as done is
// then done, and a stop takes no longer than that. Waiting so seldom costs
// nothing that could be measured. Of the training thread.
class QueueLimit {
 public:
  static constexpr absl::Duration kAhead = absl::Seconds(2);

  // Both must outlive it.
  explicit QueueLimit(device::Device& device,
                      const base::Clock& clock = base::Clock::Real())
      : device_(device), clock_(clock) {}

  // Nothing of a step is queued yet.
  void Begin();
  // A micro-batch was handed to the device, and another one follows. May wait.
  void Queued();
  // The device has been waited for; the step's last micro-batch is done too.
  void Done();

 private:
  void Note();

  device::Device& device_;
  const base::Clock& clock_;
  absl::Duration since_;  // monotonic: when the device was last idle
  int64_t queued_ = 0;    // since then
  absl::Duration micro_batch_ = absl::InfiniteDuration();  // takes, as measured
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_QUEUE_LIMIT_H_
