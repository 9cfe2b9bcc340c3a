// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_CELL_H_
#define MPSD_CORE_WORKER_CELL_H_

namespace mpsd::worker {

// The most descriptors, and the most processes and threads of its user, that a
// worker counts on.
inline constexpr int kMostDescriptors = 4096;
inline constexpr int kMostProcesses = 32768;

// Takes from this process what a worker of mpsd does not need, for good: a
// crash writes no core file, which would hold the job's data; descriptors,
// processes and threads are bounded, where the system's own bound is not lower;
// new files are the user's alone. posix_spawn cannot do so, so the worker does,
// before it reads anything. The size of a file has no bound: what a model may
// write is bounded by the disk, and mpsd keeps some of that free.
void EnterCell();

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_CELL_H_
