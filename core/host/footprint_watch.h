// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_FOOTPRINT_WATCH_H_
#define MPSD_CORE_HOST_FOOTPRINT_WATCH_H_

#include <cstdint>
#include <optional>

#include "core/host/footprint_peak.h"

namespace mpsd::host {

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

#endif  // MPSD_CORE_HOST_FOOTPRINT_WATCH_H_
