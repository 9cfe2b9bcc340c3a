// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROBE_H_
#define MPSD_CORE_STUDY_PROBE_H_

#include "absl/status/statusor.h"
#include "core/study/study.h"

namespace mpsd::study {

// A few steps on the longest rows; see proto/mpsd/v1/probe.proto. A job that
// runs out of memory has a result, with the verdict FAIL.
absl::StatusOr<Found> Probe(const Study& study);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PROBE_H_
