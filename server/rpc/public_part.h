// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_PUBLIC_PART_H_
#define MPSD_SERVER_RPC_PUBLIC_PART_H_

#include "mpsd/v1/jobs.pb.h"

namespace mpsd::rpc {

// The public part of a private job: who uses the device, and when it may be
// free again. Clears every other field: the name, which is a field of the spec,
// the labels, texts, numbers of the training and paths.
void KeepPublicPart(v1::Job& job);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_PUBLIC_PART_H_
