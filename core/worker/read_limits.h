// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_READ_LIMITS_H_
#define MPSD_CORE_WORKER_READ_LIMITS_H_

#include "core/wire/messages.h"

namespace mpsd::worker {

// Restricts this process to the daemon's limits for its job. If
// `start`.read_roots has roots, the process opens no file outside them and its
// own cache. If data of the job are outside the job's own inputs/, no message
// shows their contents. Call once, before the job is read.
void LimitToStart(const wire::Start& start);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_READ_LIMITS_H_
