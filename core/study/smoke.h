// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_SMOKE_H_
#define MPSD_CORE_STUDY_SMOKE_H_

#include "absl/status/statusor.h"
#include "core/study/study.h"

namespace mpsd::study {

// Short epochs on a slice of the data; memory after each; see
// proto/mpsd/v1/smoke.proto.
absl::StatusOr<Found> Smoke(const Study& study);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_SMOKE_H_
