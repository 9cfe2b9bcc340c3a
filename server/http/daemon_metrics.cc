// SPDX-License-Identifier: Apache-2.0
#include "server/http/daemon_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <cstddef>
#include <iterator>
#include <utility>

#include "server/http/families.h"
#include "server/http/names.h"

namespace mpsd::prometheus {
namespace {

using ::prometheus::ClientMetric;
using ::prometheus::MetricFamily;

ClientMetric Gauge(int64_t value, std::vector<ClientMetric::Label> labels) {
  ClientMetric sample;
  sample.label = std::move(labels);
  sample.gauge.value = static_cast<double>(value);
  return sample;
}

MetricFamily FamilyOf(const Metric& metric, std::vector<ClientMetric> samples) {
  return {metric.name, metric.help, ::prometheus::MetricType::Gauge,
          std::move(samples)};
}

// From a read of the board to a Submit that hashes and links many files.
const ::prometheus::Histogram::BucketBoundaries kBuckets = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

// The codes that are mpsd's fault begin at 0, so that a rate sees their first
// increment; the others appear when they occur.
constexpr absl::StatusCode kCodesFromTheStart[] = {
    absl::StatusCode::kOk, absl::StatusCode::kUnknown,
    absl::StatusCode::kInternal, absl::StatusCode::kUnavailable,
    absl::StatusCode::kDataLoss};

const char* CodeLabel(absl::StatusCode code) {
  const auto number = static_cast<size_t>(code);
  return number < std::size(kRpcCodes) ? kRpcCodes[number] : "unknown";
}

// From a commit that flushes nothing to a disk that hardly responds.
const ::prometheus::Histogram::BucketBoundaries kCommitBuckets = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
    0.05,   0.1,     0.25,   0.5,   1,      2.5,   10,   30};

}  // namespace

void DiskMetrics::SetRoom(int64_t free_bytes, int64_t size_bytes,
                          absl::Duration valid) {
  absl::MutexLock lock(&mutex_);
  free_bytes_ = free_bytes;
  size_bytes_ = size_bytes;
  room_until_ = clock_.Monotonic() + valid;
}

void DiskMetrics::SetBytes(std::map<std::string, int64_t> bytes_by_kind,
                           absl::Duration valid) {
  absl::MutexLock lock(&mutex_);
  bytes_by_kind_ = std::move(bytes_by_kind);
  bytes_until_ = clock_.Monotonic() + valid;
}

std::vector<MetricFamily> DiskMetrics::Collect() const {
  std::vector<MetricFamily> families;
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = clock_.Monotonic();
  if (now < room_until_) {
    families.push_back(FamilyOf(kStateDiskFree, {Gauge(free_bytes_, {})}));
    families.push_back(FamilyOf(kStateDiskSize, {Gauge(size_bytes_, {})}));
  }
  if (now < bytes_until_) {
    std::vector<ClientMetric> samples;
    samples.reserve(bytes_by_kind_.size());
    for (const auto& [kind, bytes] : bytes_by_kind_) {
      samples.push_back(Gauge(bytes, {{"kind", kind}}));
    }
    families.push_back(FamilyOf(kStateBytes, std::move(samples)));
  }
  return families;
}

RpcMetrics::RpcMetrics(::prometheus::Registry& registry)
    : requests_(Counters(registry, kRpcRequests)),
      open_streams_(Gauges(registry, kRpcOpenStreams)),
      seconds_(Histograms(registry, kRpcSeconds)) {}

void RpcMetrics::MethodServed(const jobs::CallMethod& method) {
  for (absl::StatusCode code : kCodesFromTheStart) Requests(method, code);
  if (method.is_stream) {
    OpenStreams(method);
  } else {
    Seconds(method);
  }
}

void RpcMetrics::CallStarted(const jobs::CallMethod& method) {
  if (method.is_stream) OpenStreams(method).Increment();
}

void RpcMetrics::CallEnded(const jobs::CallMethod& method,
                           absl::StatusCode code, absl::Duration duration) {
  Requests(method, code).Increment();
  if (method.is_stream) {
    OpenStreams(method).Decrement();
  } else {
    Seconds(method).Observe(absl::ToDoubleSeconds(duration));
  }
}

::prometheus::Counter& RpcMetrics::Requests(const jobs::CallMethod& method,
                                            absl::StatusCode code) {
  return requests_.Add({{"method", method.name}, {"code", CodeLabel(code)}});
}

::prometheus::Gauge& RpcMetrics::OpenStreams(const jobs::CallMethod& method) {
  return open_streams_.Add({{"method", method.name}});
}

::prometheus::Histogram& RpcMetrics::Seconds(const jobs::CallMethod& method) {
  return seconds_.Add({{"method", method.name}}, kBuckets);
}

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
  // A rate sees the first increment only if the series began at 0.
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
