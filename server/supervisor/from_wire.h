// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_FROM_WIRE_H_
#define MPSD_SERVER_SUPERVISOR_FROM_WIRE_H_

#include "core/wire/messages.h"
#include "server/jobs/job.h"
#include "server/jobs/worker_exit.h"

namespace mpsd::supervisor {

// The worker's words in the daemon's terms, field by field.
jobs::Progress FromWire(const wire::Progress& message);
jobs::Evaluated FromWire(const wire::Evaluated& message);
jobs::Checkpoint FromWire(const wire::Checkpointed& message);
jobs::DoneReport FromWire(const wire::Done& message);
jobs::FailedReport FromWire(const wire::Failed& message);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_FROM_WIRE_H_
