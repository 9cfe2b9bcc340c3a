// SPDX-License-Identifier: Apache-2.0
#include "client/retry_pause.h"

#include <algorithm>

namespace mpsd::client {

absl::Duration RetryPause::Wait() {
  pause_ = std::clamp(pause_ * 2, absl::Milliseconds(200), absl::Seconds(2));
  console_.terminal.sleep(pause_);
  console_.daemon.Reset();
  return pause_;
}

}  // namespace mpsd::client
