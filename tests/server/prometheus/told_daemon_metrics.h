// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_PROMETHEUS_TOLD_DAEMON_METRICS_H_
#define MPSD_TESTS_SERVER_PROMETHEUS_TOLD_DAEMON_METRICS_H_

#include "absl/time/time.h"
#include "server/prometheus/daemon_metrics.h"

namespace mpsd::prometheus {

// Every metric has a series afterwards.
inline void TellEverythingOf(DaemonMetrics& metrics) {
  metrics.rpc().MethodServed({"JobService.Submit", /*is_stream=*/false});
  metrics.rpc().MethodServed({"JobService.Watch", /*is_stream=*/true});
  metrics.disk().SetRoom(10, 20, absl::Minutes(5));
  metrics.disk().SetBytes({{"logs", 1}, {"results", 2}}, absl::Minutes(5));
  metrics.Committed(absl::Milliseconds(1));
  metrics.SelftestPassed("mps", absl::FromUnixSeconds(1'700'000'000));
  metrics.PullsRun(1);
  metrics.PullEnded("succeeded");
  metrics.PullReceived(1);
  metrics.SetBudget(1);
  metrics.Collected(jobs::Collected::kJob, 1, 1);
  metrics.CertificateEnds(absl::FromUnixSeconds(1'800'000'000));
}

}  // namespace mpsd::prometheus

#endif  // MPSD_TESTS_SERVER_PROMETHEUS_TOLD_DAEMON_METRICS_H_
