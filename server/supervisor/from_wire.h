// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_FROM_WIRE_H_
#define MPSD_SERVER_SUPERVISOR_FROM_WIRE_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/wire/messages.h"
#include "server/jobs/job.h"
#include "server/jobs/worker_exit.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::supervisor {

// The worker's words in the daemon's terms, field by field. A worker repeats
// what stands in files that users sent: every text is made printable here, and
// texts and lists are cut to the bounds of core/base/limits.h. Only a failure's
// message may have several lines. A confusion matrix that is too large, or no
// JSON to be read, is left out.
jobs::WorkerListener::Identity FromWire(const wire::Hello& message);
jobs::Progress FromWire(const wire::Progress& message);
jobs::Evaluated FromWire(const wire::Evaluated& message);
jobs::Checkpoint FromWire(const wire::Checkpointed& message);
jobs::DoneReport FromWire(const wire::Done& message);
jobs::FailedReport FromWire(const wire::Failed& message);
std::string FromWire(const wire::Warning& message);
std::string StageOf(const wire::Heartbeat& message);
std::vector<std::string> RemovedPaths(const wire::Checkpointed& message);

// Whether FromWire leaves the confusion matrix out.
bool LeavesMatrixOut(const wire::Done& message);

// What a worker wrote elsewhere, to its log or against the protocol, as part of
// a message.
std::string CleanText(std::string_view text);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_FROM_WIRE_H_
