// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_CELL_H_
#define MPSD_CORE_WORKER_CELL_H_

namespace mpsd::worker {

// The most descriptors, and the most processes and threads of its user, that a
// worker may use.
inline constexpr int kMostDescriptors = 4096;
inline constexpr int kMostProcesses = 32768;

// Permanently restricts this process to what a worker of mpsd needs: a crash
// writes no core file, which would contain the job's data; descriptors,
// processes and threads are limited, unless the system's own limit is lower;
// new files are readable only by the user. posix_spawn cannot do this, so the
// worker does, before it reads anything. File sizes are not limited: the disk
// limits what a model may write, and mpsd keeps some of that free.
void EnterCell();

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_CELL_H_
