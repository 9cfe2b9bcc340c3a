// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/rpc_metrics.h"

#include <cstddef>
#include <iterator>

#include "server/prometheus/families.h"

namespace mpsd::prometheus {
namespace {

// From a read of the board to a Submit that hashes and links many files.
const ::prometheus::Histogram::BucketBoundaries kBuckets = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};

// The codes for which mpsd is to blame begin at 0, so that a rate sees their
// first increment; the others appear when they occur.
constexpr absl::StatusCode kCodesFromTheStart[] = {
    absl::StatusCode::kOk, absl::StatusCode::kUnknown,
    absl::StatusCode::kInternal, absl::StatusCode::kUnavailable,
    absl::StatusCode::kDataLoss};

const char* CodeLabel(absl::StatusCode code) {
  const auto number = static_cast<size_t>(code);
  return number < std::size(kRpcCodes) ? kRpcCodes[number] : "unknown";
}

}  // namespace

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

}  // namespace mpsd::prometheus
