// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOGBOOK_SUM_ATTEMPTS_H_
#define MPSD_SERVER_LOGBOOK_SUM_ATTEMPTS_H_

#include <string>
#include <vector>

#include "mpsd/v1/logbook.pb.h"

namespace mpsd::logbook {

// Adds a job's attempts (v1::RunAttempt, serialized, oldest first) to `record`:
// the last 32 one by one, and all of them together as conditions, pauses and
// durations. An attempt that mpsd did not see the end of and another one
// followed, or the job's end, was interrupted.
void SumAttempts(const std::vector<std::string>& attempts, v1::Record& record);

}  // namespace mpsd::logbook

#endif  // MPSD_SERVER_LOGBOOK_SUM_ATTEMPTS_H_
