// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SMOKE_H_
#define MPSD_CLIENT_SMOKE_H_

#include "client/console.h"
#include "mpsd/v1/study.pb.h"

namespace mpsd::client {

// A table of the epochs, above the findings; nothing for another study.
void PrintSmoke(const v1::StudyResult& result, const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SMOKE_H_
