// SPDX-License-Identifier: Apache-2.0
#include "client/round_trip.h"

#include <algorithm>

#include "absl/time/time.h"

namespace mpsd::client {
namespace {

constexpr absl::Duration kLongest = absl::Minutes(10);  // as the proto says

// `took`: how long the answer took.
grpc::Status AskInfo(const Console& console, absl::Duration* took) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::InfoResponse info;
  const absl::Duration begin = console.terminal.clock->Monotonic();
  const grpc::Status status =
      console.daemon.daemon().Info(&context, v1::InfoRequest(), &info);
  *took = console.terminal.clock->Monotonic() - begin;
  return status;
}

}  // namespace

grpc::Status Reach(const Console& console, v1::SubmitRequest* request) {
  absl::Duration first, second;
  const grpc::Status status = AskInfo(console, &first);
  if (!status.ok()) return status;
  // The first call may have made the connection, which takes several trips.
  const absl::Duration took =
      AskInfo(console, &second).ok() ? std::min(first, second) : first;
  request->set_round_trip_seconds(
      absl::ToDoubleSeconds(std::clamp(took, absl::ZeroDuration(), kLongest)));
  return status;
}

}  // namespace mpsd::client
