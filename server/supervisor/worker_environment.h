// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_WORKER_ENVIRONMENT_H_
#define MPSD_SERVER_SUPERVISOR_WORKER_ENVIRONMENT_H_

#include <map>
#include <string>

namespace mpsd::supervisor {

using Environment = std::map<std::string, std::string>;

// The environment of this process.
Environment CurrentEnvironment();

// `base` with what a worker needs of torch's Metal backend, where `base` does
// not say otherwise: memory watermarks below what the machine recommends (the
// defaults, 1.7 and 1.4 times that, swap instead of failing), no silent
// fallback to the CPU, no fast math. torch reads them once, at load.
Environment WorkerEnvironment(Environment base);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_WORKER_ENVIRONMENT_H_
