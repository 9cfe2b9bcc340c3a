// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "core/base/monitor.h"

namespace mpsd::host {

// The peak of ProcessFootprintBytes, sampled on its own thread: the system has
// no resettable peak, and Linux's includes the pages of mapped files. Peaks
// shorter than `between` are missed; a sample takes 20 to 50 microseconds.
class FootprintPeak {
 public:
  explicit FootprintPeak(absl::Duration between = absl::Milliseconds(5));

  // Bytes, since construction or the last Reset.
  int64_t bytes();
  void Reset();

 private:
  void Look();

  std::atomic<int64_t> peak_{0};
  base::PeriodicCall call_;
};

// Tracks this process's peak memory for as long as it exists. At most one may
// exist at a time.
class FootprintWatch {
 public:
  FootprintWatch();
  ~FootprintWatch();
  FootprintWatch(const FootprintWatch&) = delete;
  FootprintWatch& operator=(const FootprintWatch&) = delete;

 private:
  FootprintPeak peak_;
};

// Bytes; absent if no FootprintWatch exists or the system does not report it.
// Thread-safe.
std::optional<int64_t> PeakFootprintBytes();

}  // namespace mpsd::host
