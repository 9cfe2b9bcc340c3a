// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_DAEMON_METRICS_H_
#define MPSD_SERVER_PROMETHEUS_DAEMON_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/jobs/collector.h"
#include "server/prometheus/disk_metrics.h"
#include "server/prometheus/rpc_metrics.h"

namespace mpsd::prometheus {

// What the daemon tells of its own work: its API, its disk, its database and
// the device's self-test. Collecting touches neither. Thread-safe.
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
  // What the state folder is to keep within; 0: nothing.
  void SetBudget(int64_t bytes);
  // The certificate of the API's ports ends then.
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
  ::prometheus::Histogram& commit_;
  ::prometheus::Family<::prometheus::Gauge>& selftest_;
  ::prometheus::Family<::prometheus::Gauge>& certificate_;
  ::prometheus::Family<::prometheus::Counter>& pulls_;
  ::prometheus::Gauge& running_pulls_;
  ::prometheus::Counter& pulled_bytes_;
  ::prometheus::Family<::prometheus::Counter>& collected_;
  ::prometheus::Family<::prometheus::Counter>& collected_bytes_;
  ::prometheus::Family<::prometheus::Gauge>& budget_;
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_DAEMON_METRICS_H_
