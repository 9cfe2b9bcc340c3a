// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SIGNALS_H_
#define MPSD_SERVER_SIGNALS_H_

namespace mpsd {

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts, and
// ignores SIGPIPE. Before any thread is started.
void BlockShutdownSignals();

// Waits for one of them and gives its number. From then on a second one ends
// the process at once, with status 128 + its number.
int AwaitShutdownSignal();

}  // namespace mpsd

#endif  // MPSD_SERVER_SIGNALS_H_
