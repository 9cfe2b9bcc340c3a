// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_COMPARE_DEVICES_H_
#define MPSD_CLIENT_COMPARE_DEVICES_H_

#include "client/console.h"
#include "mpsd/v1/study.pb.h"

namespace mpsd::client {

// Prints the times of both devices and the decision; `result` is one of
// compare-devices.
void PrintDeviceComparison(const v1::StudyResult& result,
                           const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_COMPARE_DEVICES_H_
