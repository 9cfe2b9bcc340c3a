// SPDX-License-Identifier: Apache-2.0
#include "client/reconnect.h"

#include "client/text/format.h"

namespace mpsd::client {
namespace {

// Whether a stream may end so when its daemon stops or the connection breaks;
// OK comes from a daemon that closed the stream in good order before the job
// had ended.
bool MayPass(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE ||
         code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::OK;
}

}  // namespace

void Reconnect::Received() {
  received_ = true;
  pause_.Restart();
  waited_ = absl::ZeroDuration();
}

bool Reconnect::ShouldRetry(const grpc::Status& status) {
  if (!received_ || !MayPass(status.error_code())) return false;
  if (waited_ >= limit_) return false;
  // A host that refuses this account's key would refuse it again, and may
  // count.
  const absl::Status tunnel = console_.daemon.tunnel_status();
  if (!tunnel.ok() && !absl::IsUnavailable(tunnel)) return false;
  if (waited_ == absl::ZeroDuration()) {
    console_.err << "mpsctl: lost the connection to mpsd; trying again for "
                 << Seconds(absl::ToDoubleSeconds(limit_)) << '\n'
                 << std::flush;
  }
  waited_ += pause_.Wait();
  return true;
}

}  // namespace mpsd::client
