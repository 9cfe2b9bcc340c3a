// SPDX-License-Identifier: Apache-2.0
#include "core/worker/pulse.h"

#include <cstdint>
#include <utility>

#include "core/base/work_count.h"

namespace mpsd::worker {

Pulse::Pulse(absl::Duration interval, std::function<void()> beat)
    : thread_([this, interval, beat = std::move(beat)] {
        int64_t seen = base::WorkCount();
        while (!stop_.WaitForNotificationWithTimeout(interval)) {
          const int64_t count = base::WorkCount();
          if (count != seen) beat();
          seen = count;
        }
      }) {}

Pulse::~Pulse() {
  stop_.Notify();
  thread_.join();
}

}  // namespace mpsd::worker
