// SPDX-License-Identifier: Apache-2.0
#include "client/reconnect.h"

#include <algorithm>

#include "client/format.h"

namespace mpsd::client {
namespace {

// How a stream ends when its daemon stops or the connection breaks; OK is one
// that a daemon closed in good order before the job had ended.
bool MayPass(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE ||
         code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::OK;
}

}  // namespace

void Reconnect::Received() {
  received_ = true;
  pause_ = absl::ZeroDuration();
  waited_ = absl::ZeroDuration();
}

bool Reconnect::Again(const grpc::Status& status) {
  if (!received_ || !MayPass(status.error_code())) return false;
  if (waited_ >= limit_) return false;
  if (waited_ == absl::ZeroDuration()) {
    console_.err << "mpsctl: lost the connection to mpsd; trying again for "
                 << Seconds(absl::ToDoubleSeconds(limit_)) << '\n'
                 << std::flush;
  }
  pause_ = std::clamp(pause_ * 2, absl::Milliseconds(200), absl::Seconds(2));
  console_.terminal.sleep(pause_);
  waited_ += pause_;
  console_.daemon.Reset();
  return true;
}

}  // namespace mpsd::client
