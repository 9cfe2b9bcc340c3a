// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROFILE_H_
#define MPSD_CORE_STUDY_PROFILE_H_

#include "absl/status/statusor.h"
#include "core/study/study.h"

namespace mpsd::study {

// The study "profile": where the time of a step goes. Trains for some steps,
// some of them under torch's profiler (ProfilePlan), without evaluations,
// checkpoints and a result; then times the loader alone and the forward alone.
// Leaves trace.json.gz in the study's folder. Cancelled if the observer asks
// for a stop; other errors as train::Run.
absl::StatusOr<Found> Profile(const Study& study);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PROFILE_H_
