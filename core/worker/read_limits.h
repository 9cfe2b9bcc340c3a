// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_READ_LIMITS_H_
#define MPSD_CORE_WORKER_READ_LIMITS_H_

#include "core/wire/messages.h"

namespace mpsd::worker {

// Holds this process to what the daemon says of the job that it runs: it opens
// no file outside of `start`.read_roots and its own cache, where there are such
// roots; and where data of the job lie outside of the job's own inputs/, no
// message shows what stands in them. Once, before the job is read.
void LimitToStart(const wire::Start& start);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_READ_LIMITS_H_
