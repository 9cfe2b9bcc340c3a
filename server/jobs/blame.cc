// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/blame.h"

namespace mpsd::jobs {

Blame BlameFor(ExitReason reason) {
  switch (reason) {
    case ExitReason::kDone:
    case ExitReason::kCancelled:
    case ExitReason::kPreempted:
      return Blame::kNobody;
    case ExitReason::kRejected:
    case ExitReason::kOutOfMemory:
    case ExitReason::kNonFinite:
    case ExitReason::kCrashed:
    case ExitReason::kHung:
    case ExitReason::kProtocolError:
      return Blame::kJob;
    case ExitReason::kMachine:
      return Blame::kMachine;
    case ExitReason::kInterrupted:
      return Blame::kInterruption;
  }
  return Blame::kJob;
}

bool IsForGood(ExitReason reason) {
  return reason == ExitReason::kRejected ||
         reason == ExitReason::kOutOfMemory || reason == ExitReason::kNonFinite;
}

}  // namespace mpsd::jobs
