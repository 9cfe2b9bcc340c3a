// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RETRY_PAUSE_H_
#define MPSD_CLIENT_RETRY_PAUSE_H_

#include "absl/time/time.h"
#include "client/console.h"

namespace mpsd::client {

// The pause between two attempts to reach the daemon: 0.2 s, then twice as long
// each time, up to 2 s.
class RetryPause {
 public:
  explicit RetryPause(const Console& console) : console_(console) {}

  // Waits and drops the connection, so that the next attempt makes a new one.
  // Returns the time waited.
  absl::Duration Wait();
  // An attempt got through: the next pause is the shortest.
  void Restart() { pause_ = absl::ZeroDuration(); }

 private:
  const Console& console_;
  absl::Duration pause_ = absl::ZeroDuration();
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RETRY_PAUSE_H_
