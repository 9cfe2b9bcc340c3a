// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/daemon_metrics.h"

#include <utility>

#include "server/prometheus/families.h"
#include "server/prometheus/label_values.h"

namespace mpsd::prometheus {
namespace {

// From a commit that flushes nothing to a disk that hardly answers.
const ::prometheus::Histogram::BucketBoundaries kCommitBuckets = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
    0.05,   0.1,     0.25,   0.5,   1,      2.5,   10,   30};

}  // namespace

DaemonMetrics::DaemonMetrics(const base::Clock& clock)
    : rpc_(registry_),
      disk_(clock),
      commit_(Histograms(registry_, kDatabaseCommit).Add({}, kCommitBuckets)),
      selftest_(Gauges(registry_, kSelftestPassed)),
      certificate_(Gauges(registry_, kApiCertificateExpiry)),
      pulls_(Counters(registry_, kModelPulls)),
      running_pulls_(Gauges(registry_, kRunningPulls).Add({})),
      pulled_bytes_(Counters(registry_, kPulledBytes).Add({})),
      collected_(Counters(registry_, kCollected)),
      collected_bytes_(Counters(registry_, kCollectedBytes)),
      budget_(Gauges(registry_, kStateBudget)) {
  // A rate is seen from the first one on only where the series began at 0.
  for (const char* result : {"succeeded", "failed", "cancelled"}) {
    pulls_.Add({{"result", result}});
  }
  for (const auto& kind : jobs::kCollected) Collected(kind.value, 0, 0);
}

void DaemonMetrics::Committed(absl::Duration duration) {
  commit_.Observe(absl::ToDoubleSeconds(duration));
}

void DaemonMetrics::SelftestPassed(const std::string& device, absl::Time time) {
  selftest_.Add({{"device", BoundedLabel(device)}}).Set(UnixSeconds(time));
}

void DaemonMetrics::Collected(jobs::Collected kind, int64_t count,
                              int64_t bytes) {
  const ::prometheus::Labels labels = {
      {"kind", std::string(report::NameIn(jobs::kCollected, kind))}};
  collected_.Add(labels).Increment(static_cast<double>(count));
  collected_bytes_.Add(labels).Increment(static_cast<double>(bytes));
}

void DaemonMetrics::SetBudget(int64_t bytes) {
  ::prometheus::Gauge& gauge = budget_.Add({});
  gauge.Set(static_cast<double>(bytes));
  if (bytes <= 0) budget_.Remove(&gauge);
}

void DaemonMetrics::CertificateEnds(absl::Time time) {
  certificate_.Add({}).Set(UnixSeconds(time));
}

void DaemonMetrics::PullEnded(const std::string& result) {
  pulls_.Add({{"result", BoundedLabel(result)}}).Increment();
}

void DaemonMetrics::PullsRun(int pulls) { running_pulls_.Set(pulls); }

void DaemonMetrics::PullReceived(int64_t bytes) {
  pulled_bytes_.Increment(static_cast<double>(bytes));
}

std::vector<::prometheus::MetricFamily> DaemonMetrics::Collect() const {
  std::vector<::prometheus::MetricFamily> families = registry_.Collect();
  for (::prometheus::MetricFamily& family : disk_.Collect()) {
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace mpsd::prometheus
