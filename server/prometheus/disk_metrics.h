// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_DISK_METRICS_H_
#define MPSD_SERVER_PROMETHEUS_DISK_METRICS_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace mpsd::prometheus {

// The series of the state folder's disk. A measurement is shown until its time
// is over, so that a disk that answers no longer is seen. Thread-safe.
class DiskMetrics {
 public:
  // `clock` must outlive the DiskMetrics.
  explicit DiskMetrics(const base::Clock& clock) : clock_(clock) {}

  // Both show the measurement for `valid`.
  void SetRoom(int64_t free_bytes, int64_t size_bytes, absl::Duration valid);
  void SetBytes(std::map<std::string, int64_t> bytes_by_kind,
                absl::Duration valid);

  std::vector<::prometheus::MetricFamily> Collect() const;

 private:
  const base::Clock& clock_;
  mutable absl::Mutex mutex_;
  int64_t free_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t size_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int64_t> bytes_by_kind_ ABSL_GUARDED_BY(mutex_);
  // Times of the monotonic clock.
  absl::Duration room_until_ ABSL_GUARDED_BY(mutex_) =
      -absl::InfiniteDuration();
  absl::Duration bytes_until_ ABSL_GUARDED_BY(mutex_) =
      -absl::InfiniteDuration();
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_DISK_METRICS_H_
