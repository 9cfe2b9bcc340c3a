// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_EXEMPLARS_H_
#define MPSD_SERVER_PROMETHEUS_EXEMPLARS_H_

#include <prometheus/client_metric.h>
#include <prometheus/histogram.h>

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace mpsd::prometheus {

// A measurement that stands for its bucket: "which job took so long?"
struct Exemplar {
  std::string job_id;
  double value = 0;
  absl::Time time;
};

// The last exemplar of each bucket of a histogram, which prometheus-cpp has no
// place for. Thread-safe.
class Exemplars {
 public:
  using Labels = std::map<std::string, std::string>;

  // `bounds` are the buckets' upper bounds without the infinite one.
  void Observe(const std::string& histogram, const Labels& labels,
               const ::prometheus::Histogram::BucketBoundaries& bounds,
               const Exemplar& exemplar);
  // The exemplar of the bucket that ends at `upper_bound` in the series with
  // exactly these labels.
  std::optional<Exemplar> Find(
      const std::string& histogram,
      const std::vector<::prometheus::ClientMetric::Label>& labels,
      double upper_bound) const;
  // Drops what stands for a job that is deleted.
  void Forget(const std::string& job_id);

 private:
  struct Bucket {
    std::string histogram;
    Labels labels;
    double upper_bound;
    auto operator<=>(const Bucket&) const = default;
  };

  mutable absl::Mutex mutex_;
  std::map<Bucket, Exemplar> exemplars_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_EXEMPLARS_H_
