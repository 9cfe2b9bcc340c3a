// SPDX-License-Identifier: Apache-2.0
#include "server/http/daemon_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <iterator>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
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
    families.push_back(FamilyOf(Named("mpsd_state_disk_free_bytes"),
                                {Gauge(free_bytes_, {})}));
    families.push_back(FamilyOf(Named("mpsd_state_disk_size_bytes"),
                                {Gauge(size_bytes_, {})}));
  }
  if (now < bytes_until_) {
    std::vector<ClientMetric> samples;
    samples.reserve(bytes_by_kind_.size());
    for (const auto& [kind, bytes] : bytes_by_kind_) {
      samples.push_back(Gauge(bytes, {{"kind", kind}}));
    }
    families.push_back(FamilyOf(Named("mpsd_state_bytes"), std::move(samples)));
  }
  return families;
}

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
  return Counters(registry_, Named("mpsd_rpc_requests_total"))
      .Add({{"method", method.name}, {"code", CodeLabel(code)}});
}

::prometheus::Gauge& RpcMetrics::OpenStreams(const jobs::CallMethod& method) {
  return Gauges(registry_, Named("mpsd_rpc_open_streams"))
      .Add({{"method", method.name}});
}

::prometheus::Histogram& RpcMetrics::Seconds(const jobs::CallMethod& method) {
  return Histograms(registry_, Named("mpsd_rpc_seconds"))
      .Add({{"method", method.name}}, kBuckets);
}

DaemonMetrics::DaemonMetrics(const base::Clock& clock)
    : rpc_(registry_), disk_(clock) {
  // A rate sees the first increment only if the series began at 0.
  for (const char* result : {"succeeded", "failed", "cancelled"}) {
    Count(registry_, "mpsd_model_pulls_total", {{"result", result}}, 0);
  }
  for (const auto& kind : jobs::kCollected) {
    Collected(kind.value, 0, 0);
  }
  PullsRun(0);
  PullReceived(0);
  Histograms(registry_, Named("mpsd_database_commit_seconds"))
      .Add({}, kCommitBuckets);
}

void DaemonMetrics::Committed(absl::Duration duration) {
  Histograms(registry_, Named("mpsd_database_commit_seconds"))
      .Add({}, kCommitBuckets)
      .Observe(absl::ToDoubleSeconds(duration));
}

void DaemonMetrics::SelftestPassed(const std::string& device, absl::Time time) {
  SetGauge(registry_, "mpsd_selftest_timestamp_seconds",
           {{"device", BoundedLabel(device)}}, UnixSeconds(time));
}

void DaemonMetrics::Collected(jobs::Collected kind, int64_t count,
                              int64_t bytes) {
  const ::prometheus::Labels labels = {
      {"kind", std::string(report::NameIn(jobs::kCollected, kind))}};
  Count(registry_, "mpsd_collected_total", labels, static_cast<double>(count));
  Count(registry_, "mpsd_collected_bytes_total", labels,
        static_cast<double>(bytes));
}

void DaemonMetrics::SetBudget(int64_t bytes) {
  auto& budget = Gauges(registry_, Named("mpsd_state_budget_bytes"));
  ::prometheus::Gauge& gauge = budget.Add({});
  gauge.Set(static_cast<double>(bytes));
  if (bytes <= 0) budget.Remove(&gauge);
}

void DaemonMetrics::CertificateEnds(absl::Time time) {
  SetGauge(registry_, "mpsd_certificate_expiry_timestamp_seconds", {},
           UnixSeconds(time));
}

void DaemonMetrics::PullEnded(const std::string& result) {
  Count(registry_, "mpsd_model_pulls_total",
        {{"result", BoundedLabel(result)}});
}

void DaemonMetrics::PullsRun(int pulls) {
  SetGauge(registry_, "mpsd_model_pulls_running", {}, pulls);
}

void DaemonMetrics::PullReceived(int64_t bytes) {
  Count(registry_, "mpsd_model_pulled_bytes_total", {},
        static_cast<double>(bytes));
}

std::vector<::prometheus::MetricFamily> DaemonMetrics::Collect() const {
  std::vector<::prometheus::MetricFamily> families = registry_.Collect();
  for (::prometheus::MetricFamily& family : disk_.Collect()) {
    families.push_back(std::move(family));
  }
  return families;
}

namespace {

using ::prometheus::MetricFamily;

// The error with its option. mpsd runs without metrics only if the address is
// taken.
absl::Status Explained(const absl::Status& status) {
  const char* help =
      " (--metrics-address, --metrics-tls-cert, --metrics-tls-key and "
      "--metrics-token-file say how metrics are served)";
  if (absl::IsUnavailable(status)) {
    help = " (choose another --metrics-address, or off)";
  }
  return absl::Status(status.code(),
                      absl::StrCat("metrics: ", status.message(), help));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exposition>> Exposition::Start(
    http::Server::Options options, Sources sources) {
  absl::StatusOr<std::unique_ptr<http::Server>> server =
      http::Server::Open(std::move(options));
  if (!server.ok()) return Explained(server.status());
  auto exposition =
      absl::WrapUnique(new Exposition(std::move(sources), *std::move(server)));
  exposition->server_->Serve(
      [raw = exposition.get()](const http::Request& request) {
        return raw->Answer(request);
      });
  return exposition;
}

http::Response Exposition::Answer(const http::Request& request) const {
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path == "/healthz") return {.body = "ok\n"};
  if (path != "/metrics") {
    return {.status = 404, .body = "the metrics are at /metrics\n"};
  }
  std::vector<MetricFamily> families;
  for (const ::prometheus::Collectable* source : sources_) {
    for (MetricFamily& family : source->Collect()) {
      families.push_back(std::move(family));
    }
  }
  if (const std::optional<absl::Time> expiry = server_->certificate_expiry()) {
    families.push_back(
        SingleValue(Named("mpsd_metrics_certificate_expiry_timestamp_seconds"),
                    static_cast<double>(absl::ToUnixSeconds(*expiry))));
  }
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = ::prometheus::TextSerializer().Serialize(families)};
}

}  // namespace mpsd::prometheus
