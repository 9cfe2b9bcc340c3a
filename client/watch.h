// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_WATCH_H_
#define MPSD_CLIENT_WATCH_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/console.h"

namespace mpsd::client {

struct WatchOptions {
  std::string id;              // a whole id
  int64_t after_sequence = 0;  // earlier events are not shown
  // How long the client waits for an unreachable daemon.
  absl::Duration patience = absl::Minutes(2);
  // If set, watching also ends if the job returns to the queue, with kOk, and
  // the last event's sequence is stored here.
  int64_t* last_sequence = nullptr;
};

// Prints the job's events until the job ends, then its outcome (with --json the
// job as the last object). If the connection breaks, resumes after the last
// event seen. Ctrl-C leaves the job running and returns kDetached. Otherwise
// returns the code of the job's final state, or of the failed call.
ExitCode Watch(const Console& console, const WatchOptions& options);

// Follows the running job, and when it ends the next one, until Ctrl-C, which
// leaves the jobs running and returns kDetached: on a terminal on one screen,
// elsewhere and with --json as Watch prints each job. Waits for an unreachable
// daemon as Watch does.
ExitCode Follow(const Console& console, absl::Duration patience);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_WATCH_H_
