// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_RPC_METRICS_H_
#define MPSD_SERVER_PROMETHEUS_RPC_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "server/jobs/exported_calls.h"

namespace mpsd::prometheus {

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
  explicit RpcMetrics(::prometheus::Registry& registry);

  void MethodServed(const jobs::CallMethod& method) override;
  void CallStarted(const jobs::CallMethod& method) override;
  void CallEnded(const jobs::CallMethod& method, absl::StatusCode code,
                 absl::Duration duration) override;

 private:
  ::prometheus::Counter& Requests(const jobs::CallMethod& method,
                                  absl::StatusCode code);
  ::prometheus::Gauge& OpenStreams(const jobs::CallMethod& method);
  ::prometheus::Histogram& Seconds(const jobs::CallMethod& method);

  ::prometheus::Family<::prometheus::Counter>& requests_;
  ::prometheus::Family<::prometheus::Gauge>& open_streams_;
  ::prometheus::Family<::prometheus::Histogram>& seconds_;
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_RPC_METRICS_H_
