// SPDX-License-Identifier: Apache-2.0
#include "core/host/footprint.h"

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/host/machine.h"

namespace mpsd::host {

FootprintPeak::FootprintPeak(absl::Duration between)
    : call_(between, [this] {
        Look();
        return true;
      }) {
  Look();
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

namespace {

// Less than a thousandth of one core.
constexpr absl::Duration kBetween = absl::Milliseconds(50);

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
FootprintPeak* watched ABSL_GUARDED_BY(mutex) = nullptr;

}  // namespace

FootprintWatch::FootprintWatch() : peak_(kBetween) {
  absl::MutexLock lock(&mutex);
  base::Check(watched == nullptr, "one footprint watch at a time");
  watched = &peak_;
}

FootprintWatch::~FootprintWatch() {
  absl::MutexLock lock(&mutex);
  watched = nullptr;
}

std::optional<int64_t> PeakFootprintBytes() {
  absl::MutexLock lock(&mutex);
  const int64_t bytes = watched == nullptr ? 0 : watched->bytes();
  if (bytes <= 0) return std::nullopt;
  return bytes;
}

}  // namespace mpsd::host
