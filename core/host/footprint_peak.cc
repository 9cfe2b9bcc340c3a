// SPDX-License-Identifier: Apache-2.0
#include "core/host/footprint_peak.h"

#include "core/host/platform.h"

namespace mpsd::host {

FootprintPeak::FootprintPeak(absl::Duration between)
    : thread_([this, between] { Run(between); }) {
  Look();
}

FootprintPeak::~FootprintPeak() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

int64_t FootprintPeak::bytes() {
  Look();
  return peak_;
}

void FootprintPeak::Reset() {
  peak_ = 0;
  Look();
}

void FootprintPeak::Look() {
  const int64_t now = ProcessFootprintBytes();
  int64_t before = peak_;
  while (now > before && !peak_.compare_exchange_weak(before, now)) {
  }
}

void FootprintPeak::Run(absl::Duration between) {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&ends_), between)) return;
    }
    Look();
  }
}

}  // namespace mpsd::host
