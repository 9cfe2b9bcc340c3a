// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SIGNALS_H_
#define MPSD_SERVER_SIGNALS_H_

#include <functional>

namespace mpsd {

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and in the threads that it
// starts later, and ignores SIGPIPE. A SIGHUP that is ignored already, as under
// nohup, stays ignored. Call it before any thread is started.
void BlockSignals();

// Waits for SIGTERM or SIGINT and returns its number; calls `reload` for every
// SIGHUP that comes before. From then on a second SIGTERM or SIGINT ends the
// process at once with status 128 + its number, and SIGHUP has no effect.
int AwaitShutdownSignal(const std::function<void()>& reload);

}  // namespace mpsd

#endif  // MPSD_SERVER_SIGNALS_H_
