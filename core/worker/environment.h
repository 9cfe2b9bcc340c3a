// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_ENVIRONMENT_H_
#define MPSD_CORE_WORKER_ENVIRONMENT_H_

#include <map>
#include <string>

#include "core/host/environment.h"

namespace mpsd::worker {

// What `current` must become for the job in the file `job` ("": none):
// host::WorkerEnvironment, and what the job itself opts in to.
host::Environment NeededEnvironment(const host::Environment& current,
                                    const std::string& job);

// For a worker that mpsd did not start: starts this program anew, in this
// process, where its environment is not the needed one, since torch has read it
// by the time main runs. Returns where it is, or where the system refuses.
void EnsureEnvironment(char** argv, const std::string& job);

// Of this process, what results may depend on: PYTORCH_*, OMP_*, AGX_*, MKL_*.
std::map<std::string, std::string> NotedEnvironment();

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_ENVIRONMENT_H_
