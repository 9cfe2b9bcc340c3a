// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_BATCH_SWEEP_H_
#define MPSD_CORE_STUDY_BATCH_SWEEP_H_

#include "absl/status/statusor.h"
#include "core/study/study.h"

namespace mpsd::study {

// Throughput and memory by batch size; see proto/mpsd/v1/batch_sweep.proto.
// Measurements survive the end of the worker, in <out_dir>/points.jsonl.
absl::StatusOr<Found> BatchSweep(const Study& study);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_BATCH_SWEEP_H_
