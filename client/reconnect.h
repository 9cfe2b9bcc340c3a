// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RECONNECT_H_
#define MPSD_CLIENT_RECONNECT_H_

#include "absl/time/time.h"
#include "client/console.h"
#include "client/retry_pause.h"

namespace mpsd::client {

// Continues a stream after a restart of the daemon: tries again after each
// pause, and gives up when nothing was received for `limit`.
class Reconnect {
 public:
  Reconnect(const Console& console, absl::Duration limit)
      : console_(console), limit_(limit), pause_(console) {}

  // The stream received something: the limit starts anew.
  void Received();

  // Whether to try again after an attempt that ended with `status`; if so,
  // first waits and resets the connection. False for errors that a new attempt
  // would meet again, and for the first attempt of all unless Received was
  // called. Says on stderr, once an outage, that it waits.
  bool ShouldRetry(const grpc::Status& status);

 private:
  const Console& console_;
  const absl::Duration limit_;
  bool received_ = false;
  RetryPause pause_;
  absl::Duration waited_ = absl::ZeroDuration();
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RECONNECT_H_
