// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_ENVIRONMENT_H_
#define MPSD_CORE_WORKER_ENVIRONMENT_H_

#include <map>
#include <string>

#include "core/host/environment.h"

namespace mpsd::worker {

// The environment that the job in the file `job` ("": none) needs, made from
// `current`: host::WorkerEnvironment, and what the job itself opts in to.
host::Environment NeededEnvironment(const host::Environment& current,
                                    const std::string& job);

// For a worker that mpsd did not start. If the environment is not the needed
// one, starts this program anew within the process, since torch has read the
// environment by the time main runs. Returns if the environment is right, or if
// the system refuses the start.
void EnsureEnvironment(char** argv, const std::string& job);

// The variables of this process that results may depend on: PYTORCH_*, OMP_*,
// AGX_*, MKL_*.
std::map<std::string, std::string> NotedEnvironment();

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_ENVIRONMENT_H_
