// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_FOOTPRINT_WATCH_H_
#define MPSD_CORE_HOST_FOOTPRINT_WATCH_H_

#include <cstdint>
#include <optional>

#include "core/host/footprint_peak.h"

namespace mpsd::host {

// Has the process know the most memory that it held since this object was made.
// At most one lives at a time.
class FootprintWatch {
 public:
  FootprintWatch();
  ~FootprintWatch();
  FootprintWatch(const FootprintWatch&) = delete;
  FootprintWatch& operator=(const FootprintWatch&) = delete;

 private:
  FootprintPeak peak_;
};

// Bytes; absent where no FootprintWatch lives, or where the system does not
// tell. Thread-safe.
std::optional<int64_t> PeakFootprintBytes();

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_FOOTPRINT_WATCH_H_
