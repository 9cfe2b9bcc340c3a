// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PARITY_H_
#define MPSD_CLIENT_PARITY_H_

#include "client/console.h"
#include "mpsd/v1/study.pb.h"

namespace mpsd::client {

// Prints the losses side by side, the tensors that differ most and who signed
// the result off; `result` is one of parity.
void PrintParity(const v1::StudyResult& result, const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PARITY_H_
