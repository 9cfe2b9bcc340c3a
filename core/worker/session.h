// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_SESSION_H_
#define MPSD_CORE_WORKER_SESSION_H_

#include <ostream>

namespace mpsd::worker {

// The worker's side of core/wire over the stream socket `fd`, which it owns:
// Hello, Start, the run, and the run's result. End of stream or Stop{kPreempt}
// makes the run save a checkpoint and end; Stop{kCancel} ends it without one;
// Pause holds it. The run reacts to each between two micro-batches. While work
// is done, a thread sends Heartbeat at intervals. Lines for the job's log go to
// `log`. Returns the exit code: 0 after Done or Stopped, 1 after Failed, 2 if
// the daemon violated the protocol.
int RunSession(int fd, std::ostream& log);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_SESSION_H_
