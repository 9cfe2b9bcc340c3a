// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_READ_LIMITS_H_
#define MPSD_CORE_WORKER_READ_LIMITS_H_

#include "core/wire/messages.h"

namespace mpsd::worker {

// Holds this process to the daemon's limits for its job. If `start`.read_roots
// has roots, the process opens no file outside of them and its own cache. If
// data of the job lie outside of the job's own inputs/, no message shows their
// contents. Called once, before the job is read.
void LimitToStart(const wire::Start& start);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_READ_LIMITS_H_
