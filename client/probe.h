// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PROBE_H_
#define MPSD_CLIENT_PROBE_H_

#include "client/console.h"
#include "mpsd/v1/study.pb.h"

namespace mpsd::client {

// What a probe measured, above its findings; nothing for another study.
void PrintProbe(const v1::StudyResult& result, const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PROBE_H_
