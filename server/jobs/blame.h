// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_BLAME_H_
#define MPSD_SERVER_JOBS_BLAME_H_

#include <string_view>

#include "core/report/report.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// Whose fault the end of an attempt is, and what follows. No other table
// decides this; retry.h has the limits and waits.
//
//   nobody's        Done, Cancelled, Preempted (the daemon was stopped, or the
//                   machine was wanted for something else). Nothing counts; a
//                   job that comes back keeps its place.
//   the job's       Rejected, OutOfMemory, NonFinite, TimeLimit: it would end
//                   so again, FAILED at once. Crashed, Hung, ProtocolError:
//                   counted as a failure, tried again after a wait, FAILED at
//                   the limit.
//   the machine's   Machine: a full disk or quota, no descriptor or process
//                   left, a device that fails, a volume that is away, a worker
//                   that cannot be started. Never counted; the job goes back
//                   and the queue holds with its reason and looks again, after
//                   longer and longer waits. What one job alone lacks (a path
//                   of its own that was there at Submit, room for its
//                   checkpoint) holds that job and lets the others go.
//   an interruption Interrupted: daemon or machine went down with the attempt,
//                   or it was returned for memory pressure, which it may have
//                   made itself. Counted unless the attempt wrote a new
//                   checkpoint; tried again after a wait and behind the others,
//                   FAILED at a limit of its own.
//
// A new checkpoint, beyond every earlier one, resets both counts to zero.
enum class BlamedParty { kNobody, kJob, kMachine, kInterruption };
// The names are the labels of metrics.
inline constexpr report::EnumName<BlamedParty> kBlamedParties[] = {
    {BlamedParty::kNobody, "nobody"},
    {BlamedParty::kJob, "job"},
    {BlamedParty::kMachine, "machine"},
    {BlamedParty::kInterruption, "interruption"}};
constexpr std::string_view Name(BlamedParty party) {
  return report::NameIn(kBlamedParties, party);
}

BlamedParty BlamedPartyFor(ExitReason reason);

// Whether the same attempt would end the same way again.
bool IsForGood(ExitReason reason);

// Whether a job may go back to the queue after such an end.
bool MayReturn(ExitReason reason);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_BLAME_H_
