// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PROFILE_H_
#define MPSD_CLIENT_PROFILE_H_

#include "client/console.h"
#include "mpsd/v1/study.pb.h"

namespace mpsd::client {

// Where the time of a step goes: parts, blocks, the costliest operators, waits.
void PrintProfile(const v1::StudyResult& result, const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PROFILE_H_
