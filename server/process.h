// SPDX-License-Identifier: Apache-2.0
// What the process asks of the system: signals and descriptors.
#pragma once

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

// Raises the number of files and connections that this process may have open,
// as far as the system allows and to at most 65,536; shells start programs with
// as few as 256. Returns the limit in effect.
int RaiseDescriptorLimit();

// The first descriptor number that no connection gets when `limit` descriptors
// may be open. The numbers from this one on are reserved for the database,
// uploads and workers.
int FirstReservedDescriptor(int limit);

}  // namespace mpsd
