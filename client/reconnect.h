// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RECONNECT_H_
#define MPSD_CLIENT_RECONNECT_H_

#include "absl/time/time.h"
#include "client/console.h"

namespace mpsd::client {

// Brings a stream through a restart of the daemon: between two attempts it
// waits 0.2 s, then twice as long up to 2 s, and connects afresh; it gives up
// when nothing was received for `limit`.
class Reconnect {
 public:
  Reconnect(const Console& console, absl::Duration limit)
      : console_(console), limit_(limit) {}

  // Something was received: the limit starts anew.
  void Received();

  // Whether an attempt that ended with `status` may be made again; waits and
  // resets the connection if so. False for errors that a new attempt would
  // meet again, and for the first attempt of all unless Received was called.
  // Says on stderr, once an outage, that it waits.
  bool Again(const grpc::Status& status);

 private:
  const Console& console_;
  const absl::Duration limit_;
  bool received_ = false;
  absl::Duration pause_ = absl::ZeroDuration();
  absl::Duration waited_ = absl::ZeroDuration();
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RECONNECT_H_
