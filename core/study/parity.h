// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PARITY_H_
#define MPSD_CORE_STUDY_PARITY_H_

#include "absl/status/statusor.h"
#include "core/study/study.h"

namespace mpsd::study {

// Whether a device computes what another one does: the study of ParityOptions
// in proto/mpsd/v1/parity.proto. On one machine the reference runs first, its
// tensors wait in a file, then the device in question runs; the model of one is
// in memory at a time.
//
// FailedPrecondition where a device is not there, or where both would be the
// CPU though the options do not say so.
absl::StatusOr<Found> CompareParity(const Study& study);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PARITY_H_
