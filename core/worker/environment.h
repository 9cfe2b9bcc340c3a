// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_ENVIRONMENT_H_
#define MPSD_CORE_WORKER_ENVIRONMENT_H_

#include <map>
#include <string>

#include "core/host/environment.h"

namespace mpsd::worker {

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

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_ENVIRONMENT_H_
