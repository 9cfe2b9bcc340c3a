// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_PULSE_H_
#define MPSD_CORE_WORKER_PULSE_H_

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace mpsd::worker {

// Shows that this process makes progress. A thread calls `beat` in every
// `interval` in which work was done (core/base/work_count.h); a stuck process
// sends no beats. The destructor ends the calls.
class Pulse {
 public:
  Pulse(absl::Duration interval, std::function<void()> beat);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_PULSE_H_
