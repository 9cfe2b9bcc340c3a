// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/blame.h"

namespace mpsd::jobs {

BlamedParty BlamedPartyFor(ExitReason reason) {
  switch (reason) {
    case ExitReason::kDone:
    case ExitReason::kCancelled:
    case ExitReason::kPreempted:
      return BlamedParty::kNobody;
    case ExitReason::kRejected:
    case ExitReason::kOutOfMemory:
    case ExitReason::kNonFinite:
    case ExitReason::kCrashed:
    case ExitReason::kHung:
    case ExitReason::kTimeLimit:
    case ExitReason::kProtocolError:
      return BlamedParty::kJob;
    case ExitReason::kMachine:
      return BlamedParty::kMachine;
    case ExitReason::kInterrupted:
      return BlamedParty::kInterruption;
  }
  return BlamedParty::kJob;
}

bool IsForGood(ExitReason reason) {
  return reason == ExitReason::kRejected ||
         reason == ExitReason::kOutOfMemory ||
         reason == ExitReason::kNonFinite || reason == ExitReason::kTimeLimit;
}

bool MayReturn(ExitReason reason) {
  return reason != ExitReason::kDone && reason != ExitReason::kCancelled &&
         !IsForGood(reason);
}

}  // namespace mpsd::jobs
