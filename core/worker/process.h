// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "core/base/monitor.h"
#include "core/host/environment.h"
#include "core/wire/messages.h"

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

// The environment that the job in the file `job` ("": none) needs, derived from
// `current`: host::WorkerEnvironment, and the job's own options.
host::Environment NeededEnvironment(const host::Environment& current,
                                    const std::string& job);

// For a worker that mpsd did not start. If the environment is not the needed
// one, re-executes this program, since torch has already read the environment
// when main runs. Returns if the environment is right, or if re-execution
// fails.
void EnsureEnvironment(char** argv, const std::string& job);

// The variables of this process that results may depend on: PYTORCH_*, OMP_*,
// AGX_*, MKL_*.
std::map<std::string, std::string> NotedEnvironment();

// Shows that this process makes progress. A thread calls `beat` in every
// `interval` in which work was done (core/base/clock.h); a stuck process
// sends no beats. The destructor ends the calls.
class Pulse {
 public:
  Pulse(absl::Duration interval, std::function<void()> beat);

 private:
  base::PeriodicCall call_;
};

// Restricts this process to the daemon's limits for its job. If
// `start`.read_roots has roots, the process opens no file outside them and its
// own cache; in `start`.closed_roots it opens only what they name there, and
// the job's uploads. If data of the job are outside the job's own inputs/, no
// message shows their contents. Call once, before the job is read.
void LimitToStart(const wire::Start& start);

// Calls `gone` once, on its own thread, when `pipe` no longer has a reader:
// mpsd, which started this process, was killed. A terminal or a file always has
// a reader. The destructor ends the watch.
class ReaderWatch {
 public:
  ReaderWatch(int pipe, absl::Duration interval, std::function<void()> gone);

 private:
  base::PeriodicCall call_;
};

}  // namespace mpsd::worker
