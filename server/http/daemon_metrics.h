// SPDX-License-Identifier: Apache-2.0
// The metrics of the daemon's own work, and the address that serves all
// metrics.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/http/server.h"
#include "server/jobs/collector.h"
#include "server/jobs/meters.h"

namespace mpsd::prometheus {

// The series of the state folder's disk. A measurement is shown for a limited
// time, so that a hanging disk is noticed. Thread-safe.
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

// The label of each code, by its number.
inline constexpr const char* kRpcCodes[] = {"ok",
                                            "cancelled",
                                            "unknown",
                                            "invalid_argument",
                                            "deadline_exceeded",
                                            "not_found",
                                            "already_exists",
                                            "permission_denied",
                                            "resource_exhausted",
                                            "failed_precondition",
                                            "aborted",
                                            "out_of_range",
                                            "unimplemented",
                                            "internal",
                                            "unavailable",
                                            "data_loss",
                                            "unauthenticated"};

// The series of the API. A unary method has a histogram, a stream a gauge, both
// have counters by code. Thread-safe.
class RpcMetrics final : public jobs::ExportedCalls {
 public:
  // `registry` must outlive the RpcMetrics.
  explicit RpcMetrics(::prometheus::Registry& registry) : registry_(registry) {}

  void MethodServed(const jobs::CallMethod& method) override;
  void CallStarted(const jobs::CallMethod& method) override;
  void CallEnded(const jobs::CallMethod& method, absl::StatusCode code,
                 absl::Duration duration) override;

 private:
  ::prometheus::Counter& Requests(const jobs::CallMethod& method,
                                  absl::StatusCode code);
  ::prometheus::Gauge& OpenStreams(const jobs::CallMethod& method);
  ::prometheus::Histogram& Seconds(const jobs::CallMethod& method);

  ::prometheus::Registry& registry_;
};

// The metrics of the daemon's own work: its API, its disk, its database and the
// device's self-test. Collecting accesses neither disk nor database.
// Thread-safe.
class DaemonMetrics final : public ::prometheus::Collectable {
 public:
  // `clock` must outlive the DaemonMetrics.
  explicit DaemonMetrics(const base::Clock& clock);

  RpcMetrics& rpc() { return rpc_; }
  DiskMetrics& disk() { return disk_; }

  // One commit of the database took `duration`.
  void Committed(absl::Duration duration);
  // The self-test of `device` ("mps") passed at `time`.
  void SelftestPassed(const std::string& device, absl::Time time);
  // Retention removed `count` things of a kind.
  void Collected(jobs::Collected kind, int64_t count, int64_t bytes);
  // The state folder's budget; 0: none.
  void SetBudget(int64_t bytes);
  // The certificate of the API's ports expires then.
  void CertificateEnds(absl::Time time);

  // A pull of a model ended: "succeeded", "failed" or "cancelled".
  void PullEnded(const std::string& result);
  void PullsRun(int pulls);
  void PullReceived(int64_t bytes);

  std::vector<::prometheus::MetricFamily> Collect() const override;

 private:
  ::prometheus::Registry registry_;
  RpcMetrics rpc_;
  DiskMetrics disk_;
};

// Serves /metrics in Prometheus' text format, including when its certificate
// expires, and "ok" at /healthz, until the object is destroyed. Thread-safe.
class Exposition {
 public:
  // What a scrape shows; borrowed.
  using Sources = std::vector<const ::prometheus::Collectable*>;

  // The errors of http::Server::Open, with the option that helps.
  static absl::StatusOr<std::unique_ptr<Exposition>> Start(
      http::Server::Options options, Sources sources);

  // See http::Server.
  absl::Status Reload() { return server_->Reload(); }
  const std::string& address() const { return server_->address(); }

 private:
  Exposition(Sources sources, std::unique_ptr<http::Server> server)
      : sources_(std::move(sources)), server_(std::move(server)) {}
  http::Response Answer(const http::Request& request) const;

  const Sources sources_;
  const std::unique_ptr<http::Server> server_;
};

}  // namespace mpsd::prometheus
